package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"keyfold/bench/workload"
	"keyfold/engine/notify"
	"keyfold/internal/report"
	"keyfold/proof/stack"
	"keyfold/service/notify/broker"
	"keyfold/source/rabbit"
)

// notifyFlags are those of all measurements of `keyfold notify`.
type notifyFlags struct {
	Users    int      `default:"${users}" help:"Users the events are spread over, few of them often."`
	Seed     uint64   `default:"1" help:"Of the events."`
	Env      []string `help:"Settings of all commands of keyfold, NAME=value."`
	Fsync    bool     `default:"true" negatable:"" help:"PostgreSQL waits for the disk; without, a figure says nothing of a real server."`
	Check    bool     `default:"true" negatable:"" help:"Fail where a time or a figure is not as promised."`
	Programs string   `placeholder:"DIR" help:"Folder with the keyfold to measure; default: this tree's is built."`
	Keep     string   `placeholder:"DIR" help:"Folder for data and logs, which stays; default: a temporary one."`
}

// notifyBench is a stack with workers that decide notifications.
type notifyBench struct {
	*stack.Stack
	notifyFlags
	report    *report.Report
	workers   []*benchWorker
	publisher *rabbit.Publisher
}

// benchWorker is a `keyfold notify work`.
type benchWorker struct {
	admin string
	stop  func() error
}

// run measures on a stack of its own, which it sets up and ends.
func (f *notifyFlags) run(ctx context.Context, r *report.Report, measure func(context.Context, *notifyBench) error) (err error) {
	dir := f.Keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "keyfold-bench-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	b := &notifyBench{Stack: stack.ForNotifications(dir), notifyFlags: *f, report: r}
	b.Stack.Env = append([]string{"LOG_LEVEL=warn"}, f.Env...)
	b.Stack.Programs = f.Programs
	b.LedgerArgs = []string{"shared_buffers=256MB", "track_commit_timestamp=on", "max_wal_size=2GB"}
	if f.Fsync {
		b.LedgerArgs = append(b.LedgerArgs, "fsync=on")
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.Start(ctx); err != nil {
		return err
	}
	if err := b.versions(ctx); err != nil {
		return err
	}
	if _, err := b.Run(ctx, nil, nil, "notify", "setup"); err != nil {
		return err
	}
	defer r.Watch(ctx, b.Processes)()
	b.publisher = rabbit.NewPublisher(b.DSN, rabbit.ThisProcess("bench"), "publisher", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	b.AtEnd(func() {
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = b.publisher.Close(closing) // each confirm was awaited
	})
	return measure(ctx, b)
}

// zipf is the exponent of the users' distribution.
const zipf = 1.3

// versions notes those of the servers.
func (b *notifyBench) versions(ctx context.Context) error {
	var version string
	err := workload.Query(ctx, b.Ledger, "SHOW server_version", nil, &version)
	b.report.Version("PostgreSQL", version)
	return errors.Join(err, versions(ctx, b.report, b.Stack))
}

// promised notes a promise that is not kept, where that counts.
func (b *notifyBench) promised(kept bool, format string, args ...any) {
	b.report.Expect(kept || !b.Check, format, args...)
}

// traffic returns the events of the flags' seed and users; without skew, all users are
// alike.
func (b *notifyBench) traffic(skew float64, types ...notify.EventType) (*workload.Traffic, error) {
	return workload.New(workload.Config{Seed: b.Seed, Users: b.Users, Skew: skew, Types: types})
}

// start starts n workers and waits until they consume.
func (b *notifyBench) start(ctx context.Context, n int) error {
	for range n {
		w := &benchWorker{}
		var err error
		if w.admin, err = b.Address(); err != nil {
			return err
		}
		if w.stop, err = b.Launch([]string{"ADMIN_ADDR=" + w.admin}, "notify", "work"); err != nil {
			return err
		}
		b.workers = append(b.workers, w)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, w := range b.workers {
		if err := stack.Poll(ctx, 20*time.Millisecond, func() (bool, error) { return w.ready(ctx), nil }); err != nil {
			return fmt.Errorf("a worker is not ready: %w", err)
		}
	}
	return nil
}

// stop ends the workers.
func (b *notifyBench) stop() (err error) {
	for _, w := range b.workers {
		err = errors.Join(err, w.stop())
	}
	b.workers = nil
	return err
}

func (w *benchWorker) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.admin+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// metrics are the counters and gauges of workers, summed.
type metrics map[string]float64

// metrics reads those of the workers; none of one that does not answer.
func (b *notifyBench) metrics(ctx context.Context) metrics {
	sum := metrics{}
	for _, w := range b.workers {
		read, _ := readMetrics(ctx, w.admin) // asked again soon
		for name, v := range read {
			sum[name] += v
		}
	}
	return sum
}

// settled returns how many deliveries have their verdict and need no other.
func (m metrics) settled() int {
	return int(m[`keyfold_notify_handled_total{outcome="decided"}`] + m[`keyfold_notify_handled_total{outcome="known"}`])
}

func (m metrics) decided(o notify.Outcome) (n float64) {
	for name, v := range m {
		if strings.HasPrefix(name, `keyfold_notify_decisions_total{outcome="`+o.String()+`",`) {
			n += v
		}
	}
	return n
}

// publish publishes events and returns when the broker has confirmed each.
func (b *notifyBench) publish(ctx context.Context, events []*notify.Notification) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	messages := make([]rabbit.Message, len(events))
	for i, e := range events {
		messages[i] = broker.EventMessage(e)
	}
	if err := errors.Join(b.publisher.Publish(ctx, messages)...); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// preload publishes n events, many at once.
func (b *notifyBench) preload(ctx context.Context, t *workload.Traffic, n int) error {
	const part = 1000
	parts := make(chan []*notify.Notification)
	errs := make(chan error, 1)
	var publishers sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range 4 {
		publishers.Go(func() {
			for events := range parts {
				if err := b.publish(ctx, events); err != nil {
					select {
					case errs <- err:
						cancel()
					default:
					}
				}
			}
		})
	}
	err := func() error {
		defer publishers.Wait()
		defer close(parts)
		for made := 0; made < n && ctx.Err() == nil; {
			events := make([]*notify.Notification, min(part, n-made))
			for i := range events {
				var err error
				if events[i], err = t.Next(time.Now()); err != nil {
					return err
				}
			}
			made += len(events)
			select {
			case parts <- events:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}()
	select {
	case err = <-errs:
	default:
	}
	return err
}

// clear empties tables and queues between two runs. No worker runs.
func (b *notifyBench) clear(ctx context.Context) error {
	err := workload.Query(ctx, b.Ledger, "TRUNCATE notify_users, notify_preferences, notify_event_keys, notify_decisions, notify_deferrals", nil)
	if err != nil {
		return err
	}
	channel, err := rabbit.OpenChannel(ctx, b.DSN, "bench", "clear")
	if err != nil {
		return err
	}
	for _, queue := range append(workload.DispatchQueues(), workload.Queues()...) {
		if _, err := channel.QueuePurge(queue, false); err != nil {
			return err
		}
	}
	return channel.Disconnect(ctx)
}

// waiting returns how many messages wait for the workers or are held by them.
func (b *notifyBench) waiting() (n int, err error) {
	depths, err := b.Broker.Depths("/")
	for name, depth := range depths {
		if !strings.HasPrefix(name, broker.DispatchExchange) {
			n += depth
		}
	}
	return n, err
}

// await waits until so many deliveries are settled, and returns the workers' figures
// of that moment.
func (b *notifyBench) await(ctx context.Context, n int, limit time.Duration) (m metrics, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = stack.Poll(ctx, 50*time.Millisecond, func() (bool, error) {
		m = b.metrics(ctx)
		return m.settled() >= n, nil
	})
	if err != nil {
		err = fmt.Errorf("%d of %d events are settled after %v: %w", m.settled(), n, limit, err)
	}
	return m, err
}

// used is processor time by part.
type used struct{ worker, broker, sql time.Duration }

// used returns what each part has used so far. The workers tell their own.
func (b *notifyBench) used(m metrics) (u used, err error) {
	u.worker = time.Duration(m["process_cpu_seconds_total"] * float64(time.Second))
	broker, brokerErr := report.UsageOf(b.Broker.PID())
	sql, sqlErr := report.UsageOf(b.SQL.PID())
	u.broker, u.sql = broker.Processor, sql.Processor
	return u, errors.Join(brokerErr, sqlErr)
}

func (u used) since(before used) used {
	return used{u.worker - before.worker, u.broker - before.broker, u.sql - before.sql}
}

// times are instants by event.
type times struct {
	mu sync.Mutex
	at map[uuid.UUID]time.Time
}

func newTimes() *times { return &times{at: map[uuid.UUID]time.Time{}} }

// first notes the first time of an event.
func (t *times) first(id uuid.UUID, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, met := t.at[id]; !met {
		t.at[id] = at
	}
}

func (t *times) all() map[uuid.UUID]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.at)
}

// between returns how long it took from one time to another, of events that have both.
func between(from, to map[uuid.UUID]time.Time) report.Latencies {
	l := report.NewLatencies()
	for _, id := range slices.Collect(maps.Keys(from)) {
		if end, met := to[id]; met {
			l.Add(end.Sub(from[id]))
		}
	}
	return l
}
