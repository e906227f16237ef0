package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	workload "keyfold/bench/notify"
	"keyfold/bench/stack"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// scaleCmd measures what partitions and more workers bring, and what they cost, on
// RabbitMQ 4. Workers that are killed are in bench/soak.
type scaleCmd struct {
	Workers    scaleWorkersCmd `cmd:"" help:"Events per second of 1 to 10 workers where the store's latency is the bound: partitions beside competing consumers."`
	CPU        scaleCPUCmd     `cmd:"" name:"cpu" help:"Processor time per event of many workers against one, where the processors are the bound."`
	Latency    loadCmd         `cmd:"" set:"partitions=16" help:"Publish at a rate to workers on partitions and measure event to profile."`
	Priorities prioritiesCmd   `cmd:"" help:"Processor time of the broker per message of a classic queue with and without x-max-priority."`
}

// outputFlag says how figures are printed.
type outputFlag struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"text or json."`

	out io.Writer // nil: standard output
}

// emit prints figures as JSON, or by text.
func (f *outputFlag) emit(figures any, text func(io.Writer) error) error {
	out := f.out
	if out == nil {
		out = os.Stdout
	}
	if f.Output == "json" {
		return json.NewEncoder(out).Encode(figures)
	}
	return text(out)
}

// scaleFlags are those of the measurements of many workers.
type scaleFlags struct {
	Partitions int      `default:"64" help:"Partition queues."`
	Users      int      `default:"320" help:"Users the events are spread over."`
	Zipf       bool     `help:"Few users have most of the events. Without, all users are alike, and the figures have targets."`
	Batch      int      `default:"4" help:"Events of a window at most (EMBEDDING_BATCH_MAX_SIZE)."`
	Env        []string `help:"Settings of all commands of keyfold, NAME=value."`
	Programs   string   `placeholder:"DIR" help:"Folder with the keyfold to measure; default: this tree's is built."`
	Check      bool     `default:"true" negatable:"" help:"Fail where a figure misses its target, or a run is no measurement."`

	outputFlag `embed:""`
}

// run measures on a stack of its own.
func (f *scaleFlags) run(ctx context.Context, measure func(context.Context, *stack.Stack) error) error {
	return onServers(ctx, func(s *stack.Stack) {
		s.RabbitMQ, s.Programs = 4, f.Programs
		s.Env = append(s.Env, f.Env...)
		s.Env = append(s.Env, "EMBEDDING_BATCH_MAX_SIZE="+strconv.Itoa(f.Batch))
	}, measure)
}

// userEvents makes clicks of so many users, all alike or Zipf distributed.
func userEvents(users int, skewed bool) eventMaker {
	r := rand.New(rand.NewPCG(1, 16))
	user := func() int32 { return 1 + r.Int32N(int32(users)) }
	if skewed {
		z := rand.NewZipf(r, zipf, 8, uint64(users-1))
		user = func() int32 { return 1 + int32(z.Uint64()) }
	}
	products := sample.Products()
	return func(_ int, id string) ([]byte, int, error) {
		return fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_click","search_phrase":null,"product_id":%d,"occurred_at":%q,"metadata":{"device":"mobile"},"message_id":%q,"version":"1.0"}`,
			user(), products[r.IntN(len(products))].ID, time.Now().UTC().Format(timeFormat), id), 0, nil
	}
}

// backlog is one drain of preloaded queues.
type backlog struct {
	*stack.Stack
	flags      *scaleFlags
	name       string // of the virtual host and the database
	partitions int    // 0: the workers compete for one queue
	workers    int
	events     int
	// late publishes the events to workers that are balanced, for workers that are slow to
	// write what they hold: a partition that moves with events would end with that.
	late  bool
	start func(b *backlog, i int) (member, error) // a worker

	load *load
}

// member is one worker.
type member struct {
	metrics func(context.Context) (map[string]float64, error)
	stop    func() error
}

// drain has workers take a backlog, and measures while each of them has events to take:
// from when their partitions are where they stay until so much is acknowledged that none
// has run dry. In the end every event must be in its profile once.
func (b *backlog) drain(ctx context.Context) (r drained, err error) {
	if b.Stack, err = b.Apart(b.name); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	b.Env = append(slices.Clone(b.Env), "RABBITMQ_PARTITIONS="+strconv.Itoa(b.partitions))
	if err := b.SetUp(ctx, sample.Products()); err != nil {
		return r, err
	}
	b.load = newLoad(b.Stack, rate{}, b.name)
	b.load.event, b.load.bySlot = userEvents(b.flags.Users, b.flags.Zipf), b.partitions > 0
	if !b.late {
		if err := b.load.preload(ctx, b.events); err != nil {
			return r, err
		}
	}
	all := make([]member, b.workers)
	for i := range all {
		if all[i], err = b.start(b, i); err != nil {
			return r, errors.Join(err, stopAll(all[:i]))
		}
	}
	r, err = b.measure(ctx, all)
	if err == nil {
		r.DeadLetters, err = b.settled(ctx)
	}
	if err = errors.Join(err, stopAll(all)); err != nil {
		return r, err
	}
	return r, b.complete(ctx, r.DeadLetters)
}

// settled waits, with the workers running, until each event is in a profile or a dead
// letter, and returns how many are dead letters. Acknowledgements do not tell: that of an
// event that goes to a delay queue, after too many conflicts, counts too.
func (b *backlog) settled(ctx context.Context) (dead int, err error) {
	return dead, b.load.await(ctx, settledLimit, func(ctx context.Context) (int, error) {
		dead, err = deadLetters(ctx, b.Stack)
		return dead, err
	})
}

// settledLimit is longer than all delays of one event together (5, 10, 20, 40 and 60 s).
const settledLimit = 4 * time.Minute

// complete fails unless each event was folded once. Only workers that compete may have dead
// letters: events that met a conflict in every attempt. The error names the queues that
// hold events.
func (b *backlog) complete(ctx context.Context, dead int) error {
	if err := b.load.await(ctx, time.Second, func(context.Context) (int, error) { return dead, nil }); err != nil {
		return err
	}
	if b.load.missing == dead && b.load.folded == b.events-dead && (dead == 0 || b.partitions == 0) {
		return nil
	}
	depths, err := b.Broker.Depths(b.name)
	maps.DeleteFunc(depths, func(_ string, n int) bool { return n == 0 })
	return errors.Join(err, fmt.Errorf("%s: of %d events %d are in no profile, %d are dead letters, and %d were folded; the queues hold %v",
		b.name, b.events, b.load.missing, dead, b.load.folded, depths))
}

func stopAll(all []member) (err error) {
	ends := make(chan error, len(all))
	for _, m := range all {
		go func() { ends <- m.stop() }()
	}
	for range all {
		err = errors.Join(err, <-ends)
	}
	return err
}

// What part of a backlog is acknowledged when a measurement begins, at most when it begins,
// and when it ends. A worker with 6 of 64 partitions where others have 7 has taken 93 % of its own
// at the end.
const (
	beginAt     = 0.2
	beginBefore = 0.5
	endAt       = 0.8
)

// lookEvery is the time between two looks while it is measured: a look costs each worker about
// a millisecond.
const lookEvery = 500 * time.Millisecond

// measure waits for the balance and for the end of the steady part.
func (b *backlog) measure(ctx context.Context, all []member) (r drained, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := b.settle(ctx, all); err != nil {
		return r, fmt.Errorf("%s: the workers are not balanced: %w", b.name, err)
	}
	if b.late {
		if err := b.load.preload(ctx, b.events); err != nil {
			return r, err
		}
	}
	if b.late { // the first write of each user has a read before it
		if err := b.acknowledged(ctx, all, beginAt); err != nil {
			return r, err
		}
	}
	first, err := b.look(ctx, all)
	if err != nil {
		return r, err
	}
	if b.flags.Check && first.m[acked] > beginBefore*float64(b.events) {
		return r, fmt.Errorf("%s: %.0f of %d events are acknowledged before the workers are balanced: raise --events", b.name, first.m[acked], b.events)
	}
	last := first
	err = stack.Poll(ctx, lookEvery, func() (bool, error) {
		last, err = b.look(ctx, all)
		return last.m[acked] >= endAt*float64(b.events), err
	})
	if err != nil {
		return r, fmt.Errorf("%s: %.0f of %d events are acknowledged: %w", b.name, last.m[acked], b.events, err)
	}
	if b.flags.Check && b.partitions > 0 {
		why, err := b.unbalanced()
		if moved, connected := last.m[moves]-first.m[moves], last.m[connects]-first.m[connects]; why != "" || err != nil || moved != 0 || connected != 0 {
			return r, errors.Join(err, fmt.Errorf("%s: the steady part was not steady: %.0f partitions have moved, and workers have connected %.0f times again; %s",
				b.name, moved, connected, why))
		}
	}
	return last.since(first, b.workers), nil
}

// acknowledged waits until such a part of the events is.
func (b *backlog) acknowledged(ctx context.Context, all []member, part float64) error {
	return stack.Poll(ctx, lookEvery, func() (bool, error) {
		l, err := b.look(ctx, all)
		return l.m[acked] >= part*float64(b.events), err
	})
}

// settle waits until each worker consumes, and has its share of the partitions.
func (b *backlog) settle(ctx context.Context, all []member) error {
	err := stack.Poll(ctx, 100*time.Millisecond, func() (bool, error) {
		l, err := b.look(ctx, all)
		return int(l.m["keyfold_rabbitmq_connected"]) == len(all) && (b.late || l.m[acked] > 0), err
	})
	if err != nil || b.partitions == 0 || b.workers == 1 {
		return err
	}
	var since time.Time
	seen := -1.0
	return stack.Poll(ctx, 200*time.Millisecond, func() (bool, error) {
		l, err := b.look(ctx, all)
		if err != nil {
			return false, err
		}
		why, err := b.unbalanced()
		if why != "" || l.m[moves] != seen {
			since, seen = time.Now(), l.m[moves]
		}
		return time.Since(since) > stays, err
	})
}

// stays is how long nothing must have moved before it counts: workers look for each other
// once a second, and take their whole prefetch when five looks have found the same number.
const stays = 6 * time.Second

// unbalanced says what keeps the partitions from being balanced: that the broker delivers
// each partition to one worker, and to each worker as many as to any other or one more.
// "": they are.
func (b *backlog) unbalanced() (why string, err error) {
	queues, err := b.Broker.Queues(b.name)
	if err != nil {
		return "", err
	}
	owned, names := map[string]int{}, rabbit.DefaultNames()
	for i := range b.partitions {
		q := names.PartitionQueue(i)
		if queues[q].Active == "" {
			return fmt.Sprintf("queue %s has no active consumer: %+v", q, queues[q]), nil
		}
		owned[workerOf(queues[q].Active)]++
	}
	share := b.partitions / b.workers
	for _, n := range owned {
		if n < share || n > share+1 {
			return fmt.Sprintf("the workers' consumers have %v partitions", owned), nil
		}
	}
	if len(owned) != b.workers {
		return fmt.Sprintf("%d of %d workers have partitions: %v", len(owned), b.workers, owned), nil
	}
	return "", nil
}

// workerOf returns what the tags of a worker's consumers begin with.
func workerOf(tag string) string {
	return tag[:max(0, strings.LastIndexByte(tag, ' '))]
}

// look is what has happened so far.
type look struct {
	at                     time.Time
	m                      metrics // of all workers
	workers, broker, store time.Duration
}

// The series that count.
const (
	connects  = "keyfold_rabbitmq_connects_total"
	acked     = "keyfold_rabbitmq_acked_total"
	moves     = "keyfold_partition_moves_total"
	conflicts = "keyfold_conflicts_total"
	delayed   = "keyfold_retries_total"
	writes    = "keyfold_profile_writes_total"
	folded    = `keyfold_events_total{outcome="folded"}`
)

func (b *backlog) look(ctx context.Context, all []member) (l look, err error) {
	l.m = metrics{}
	for _, w := range all {
		m, err := w.metrics(ctx)
		if err != nil {
			return l, err
		}
		for name, n := range m {
			l.m[name] += n
		}
	}
	l.at, l.workers = time.Now(), time.Duration(l.m["process_cpu_seconds_total"]*float64(time.Second))
	if l.workers == 0 {
		l.workers = cpuTime() // they run in this process
	}
	var brokerErr, storeErr error
	l.broker, brokerErr = workload.ProcessorTime(b.Broker.PID())
	l.store, storeErr = workload.ProcessorTime(b.Store.PID())
	return l, errors.Join(brokerErr, storeErr)
}

// drained are the figures of a backlog's steady part.
type drained struct {
	Workers      int     `json:"workers"`
	Events       int     `json:"events"`
	Seconds      float64 `json:"seconds"`
	Rate         float64 `json:"events_per_second"`
	Conflicts    float64 `json:"conflicts_per_1000_events"`
	Delayed      float64 `json:"delayed_per_1000_events"` // to a delay queue, after too many conflicts
	DeadLetters  int     `json:"dead_letters"`            // of the whole run
	WritesEach   float64 `json:"writes_per_event"`
	WorkerCPU    float64 `json:"worker_cpu_ms_per_event"`
	WorkersShare float64 `json:"workers_share_of_cpu"` // of all processors
	BrokerShare  float64 `json:"broker_share_of_cpu"`
	StoreShare   float64 `json:"store_share_of_cpu"`
}

func (l look) since(first look, workers int) drained {
	n := func(series string) float64 { return l.m[series] - first.m[series] }
	took, events := l.at.Sub(first.at), n(acked)
	share := func(d time.Duration) float64 { return d.Seconds() / took.Seconds() / float64(runtime.NumCPU()) }
	return drained{
		Workers: workers, Events: int(events), Seconds: took.Seconds(), Rate: events / took.Seconds(),
		Conflicts: ratio(1000*n(conflicts), events), Delayed: ratio(1000*n(delayed), events), WritesEach: ratio(n(writes), n(folded)),
		WorkerCPU:    ratio(1000*(l.workers-first.workers).Seconds(), events),
		WorkersShare: share(l.workers - first.workers), BrokerShare: share(l.broker - first.broker), StoreShare: share(l.store - first.store),
	}
}

// ratio is 0 where there is nothing to divide by, as in runs that are too short to measure.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
