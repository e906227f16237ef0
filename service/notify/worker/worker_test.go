package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/settings"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/ruleset"
	"keyfold/shard"
	"keyfold/sink/ledger/memory"
	"keyfold/source/rabbit"
)

// fake is a ledger in memory. hangs: no call is answered until it is asked no longer;
// ahead is how far its clock is ahead; fault is what its checks answer.
type fake struct {
	*memory.Ledger
	hangs atomic.Bool
	ahead atomic.Int64

	mu    sync.Mutex
	fault error
}

func newFake() *fake { return &fake{Ledger: memory.New()} }

func (f *fake) wait(ctx context.Context) error {
	if !f.hangs.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	return f.Ledger.Load(ctx, asks)
}

func (f *fake) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	if err := f.wait(ctx); err != nil {
		errs := make([]error, max(1, len(changes)))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return f.Ledger.Commit(ctx, changes, marks)
}

func (f *fake) Check(context.Context) error { f.mu.Lock(); defer f.mu.Unlock(); return f.fault }

func (f *fake) Probe(ctx context.Context) error {
	if err := f.Check(ctx); err != nil {
		return err
	}
	return f.wait(ctx)
}

func (f *fake) Clock(context.Context) (engine.Millis, error) {
	return engine.Now() + engine.Millis(f.ahead.Load()), nil
}

func (f *fake) Backlog(context.Context) (int64, engine.Millis, error) {
	return 3, 0, f.Check(context.Background())
}

func (f *fake) Close() error { return nil }

func (f *fake) Register(*metric.Set) {}

func (f *fake) breaks(fault error) { f.mu.Lock(); defer f.mu.Unlock(); f.fault = fault }

// silent is a broker that never answers.
func silent(string) rabbit.Timing {
	return rabbit.Timing{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
}

func newWorker(t *testing.T, open func(context.Context) (Ledger, error)) *Worker {
	t.Helper()
	local, err := (&ruleset.Hours{Zone: "UTC", Morning: "08:00", Digests: "09:00"}).Local()
	must.OK(t, err)
	set, err := ruleset.Read("", local)
	must.OK(t, err)
	c := Size(settings.Config{
		Shard: shard.DefaultConfig(), Breaker: breaker.DefaultConfig(),
		Retry: settings.Retry{Attempts: 5, Delay: 5 * time.Second}, Timeout: 10 * time.Second,
	})
	c.DSN = "amqp://broker:5672/"
	return New(c, Ports{OpenLedger: open, Sets: ruleset.Fixed{Set: set}, Broker: silent, Log: slog.New(slog.DiscardHandler)})
}

// running is a worker over a fake ledger, in a synctest bubble.
func running(t *testing.T, ledger *fake) (w *Worker, stop func() error) {
	t.Helper()
	w = newWorker(t, func(context.Context) (Ledger, error) { return ledger, nil })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-w.started
	synctest.Wait()
	return w, func() error {
		cancel()
		return <-ended
	}
}

// verdicts counts by outcome.
type verdicts struct {
	mu sync.Mutex
	of map[processor.Outcome]int
}

func (v *verdicts) Settle(verdict processor.Verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil {
		v.of = map[processor.Outcome]int{}
	}
	v.of[verdict.Outcome]++
}

func (v *verdicts) count(o processor.Outcome) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.of[o]
}

func (v *verdicts) event(t *testing.T, user, kind string) processor.Delivery {
	t.Helper()
	e, err := notify.Parse(fmt.Appendf(nil, `{"event_id":%q,"user_id":%q,"event_type":%q,"title":"a title","source":"test","channel":["push"],"timestamp":%q}`,
		uuid.New(), user, kind, time.Now().UTC().Format(time.RFC3339)), engine.Now())
	must.OK(t, err)
	return processor.Delivery{Event: e, Settler: v}
}

// An alarm is told of each publisher by itself.
func TestMetricsOfThePublishers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := running(t, newFake())
		var set metric.Set
		w.register(&set)
		w.publisher.Stats.Blocked.Store(1)
		var page strings.Builder
		set.WritePrometheus(&page)
		for _, line := range []string{
			"keyfold_notify_deferred 3\n", "keyfold_notify_oldest_undispatched_seconds 0\n", "worker_instances_active 0\n",
			"keyfold_rabbitmq_publisher_blocked{publisher=\"dead_letters\"} 1\n", "keyfold_rabbitmq_publisher_blocked{publisher=\"dispatches\"} 0\n",
		} {
			if !strings.Contains(page.String(), line) {
				t.Errorf("no %s in %s", line, page.String())
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Neither the ledger nor the broker answers: what is held is given up when the time
// kept for closing begins, and Run returns before the shutdown timeout.
//
// Promise(notify/stop): A worker told to stop while ledger and broker are silent ends within its
// timeout; what is not decided comes again.
func TestStopWhileLedgerAndBrokerAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, v := newFake(), &verdicts{}
		w, stop := running(t, ledger)
		ledger.hangs.Store(true)
		must.OK(t, w.deliver(t.Context(), []processor.Delivery{v.event(t, "1", "SECURITY")}))
		time.Sleep(time.Second)
		began := time.Now()
		err := stop()
		if _, ok := errors.AsType[*shard.DrainError](err); !ok {
			t.Errorf("it ended with %v, want a DrainError", err)
		}
		if took := time.Since(began); took < 6*time.Second || took >= 10*time.Second {
			t.Errorf("it took %v, want from 6 s to less than 10 s", took)
		}
		if v.count(processor.Unsettled) != 1 {
			t.Errorf("verdicts %v", v.of)
		}
		if err := w.deliver(t.Context(), []processor.Delivery{v.event(t, "1", "SECURITY")}); err == nil || v.count(processor.Unsettled) != 2 {
			t.Errorf("a stopped worker takes events: %v, verdicts %v", err, v.of)
		}
	})
}

// What waits for a ledger that is known to be away is left to the broker when the
// worker stops.
//
// Promise(notify/stop)
func TestStopWhileTheLedgerIsKnownToBeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, v := newFake(), &verdicts{}
		w, stop := running(t, ledger)
		ledger.hangs.Store(true)
		must.OK(t, w.deliver(t.Context(), []processor.Delivery{v.event(t, "1", "SECURITY")}))
		time.Sleep(w.config.Breaker.Silence + time.Second)
		if !w.Stats().Ledger.Open {
			t.Fatal("the breaker is closed")
		}
		_ = stop() // the call under way hangs, as above
		if v.count(processor.Unsettled) != 1 {
			t.Errorf("verdicts %v", v.of)
		}
	})
}

// A ledger that is away at the start is waited for, a configuration fault is not.
//
// Promise(notify-worker/start): A worker whose PostgreSQL is away at the start or comes back without
// tables waits and goes on by itself, the cure told.
// Promise(notify/ledger-away)
func TestStartWaitsForTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, fault := 0, engine.ConfigurationError("not_set_up", errors.New("no table"))
		w := newWorker(t, func(context.Context) (Ledger, error) {
			if calls++; calls < 4 {
				return nil, errors.New("refused")
			}
			return nil, fault
		})
		if err := w.Run(t.Context()); !errors.Is(err, fault) || calls != 4 {
			t.Errorf("it ended with %v after %d calls", err, calls)
		}
		if err := w.Ready(); !errors.Is(err, errStarting) {
			t.Errorf("ready: %v", err)
		}
	})
}

// While the clocks are apart, or the schema is another one, the worker is not ready,
// decides no deferral, and says so; it goes on when that is over.
//
// Promise(notify-worker/unfit): A worker whose clock is over 2 s off the database's, or whose tables
// are newer, is not ready and takes no event or deferral.
// Promise(notify/ledger-away)
func TestUnfitWorkersRest(t *testing.T) {
	other := engine.ConfigurationError("ledger_schema", errors.New("run the newer keyfold"))
	for name, c := range map[string]struct {
		begin, end func(*fake)
		reason     string
	}{
		"clock ahead":  {func(f *fake) { f.ahead.Store(-2001) }, func(f *fake) { f.ahead.Store(-2000) }, ReasonClocksApart},
		"clock behind": {func(f *fake) { f.ahead.Store(2001) }, func(f *fake) { f.ahead.Store(2000) }, ReasonClocksApart},
		"schema":       {func(f *fake) { f.breaks(other) }, func(f *fake) { f.breaks(nil) }, "ledger_schema"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := newFake()
				c.begin(ledger)
				w, stop := running(t, ledger)
				if err := w.Ready(); engine.ReasonOf(err) != c.reason {
					t.Errorf("ready: %v", err)
				}
				c.end(ledger)
				time.Sleep(checkInterval)
				synctest.Wait()
				if err := w.Ready(); engine.ReasonOf(err) == c.reason { // the broker is away
					t.Errorf("ready: %v", err)
				}
				c.begin(ledger)
				time.Sleep(checkInterval)
				synctest.Wait()
				if err := w.Ready(); engine.ReasonOf(err) != c.reason {
					t.Errorf("ready: %v", err)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A ledger that comes back without its tables is told of with its cure.
//
// Promise(notify-worker/start)
func TestLedgerThatComesBackEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, v := newFake(), &verdicts{}
		w, stop := running(t, ledger)
		gone := engine.ConfigurationError("ledger_not_set_up", errors.New("run `keyfold notify setup`"))
		ledger.hangs.Store(true)
		ledger.breaks(gone)
		must.OK(t, w.deliver(t.Context(), []processor.Delivery{v.event(t, "1", "SECURITY")}))
		time.Sleep(w.config.Breaker.Silence + 2*w.config.Breaker.MinPause)
		synctest.Wait()
		if err := w.Ready(); !errors.Is(err, gone) || !errors.Is(w.Stats().ConfigFault, gone) || !w.Stats().Ledger.Open {
			t.Errorf("ready: %v, %+v", err, w.Stats())
		}
		_ = stop()
	})
}

// An urgent event finds room beside as many bulk events and deferrals as there can be.
//
// Promise(notify/urgent): Urgent events find room in a full worker and are decided first: at most 640
// others are ahead of one.
func TestUrgentEventsFindRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, v := newFake(), &verdicts{}
		w, stop := running(t, ledger)
		ledger.hangs.Store(true)
		for i := range w.config.BulkPrefetch + w.config.Notifier.Claim {
			must.OK(t, w.deliver(t.Context(), []processor.Delivery{v.event(t, fmt.Sprint(i), "PROMO")}))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i := range w.config.UrgentPrefetch {
			must.OK(t, w.deliver(ctx, []processor.Delivery{v.event(t, fmt.Sprint(i), "SECURITY")}))
		}
		_ = stop()
	})
}

// Whatever the settings, all that can be held at once fits the router.
//
// Promise(notify/urgent)
func TestSizeLeavesRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := settings.Config{Shard: shard.DefaultConfig(), Breaker: breaker.DefaultConfig()}
		s.Shard.MaxHeld = rapid.IntRange(4, 1<<16-1).Draw(t, "held")
		s.Shard.MaxHeldBytes = rapid.Int64Range(16<<20, 4<<30).Draw(t, "bytes")
		c := Size(s)
		if n := c.UrgentPrefetch + c.BulkPrefetch + c.Notifier.Claim; n >= s.Shard.MaxHeld || min(c.UrgentPrefetch, c.BulkPrefetch, c.Notifier.Claim, c.ReportPrefetch) < 1 {
			t.Fatalf("%d of %d held: %+v", n, s.Shard.MaxHeld, c)
		}
		if c.BulkPrefetch+c.Notifier.Claim > 1000 {
			t.Fatalf("more than a second of work before an urgent event: %+v", c)
		}
		must.OK(t, c.Notifier.Validate())
	})
}
