package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"keyfold/internal/report"
	"keyfold/proof/stack"

	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// backlog is one run: workers that wait for events, and take them as they are published.
type backlog struct {
	*stack.Stack
	partitions int // 0: the workers compete for one queue
	workers    int
	events     int
	event      eventMaker
	pause      time.Duration // between two events; 0: all are published at once
	// looks says that the workers are looked at meanwhile, for the rate of the run's middle.
	// A look costs a worker about a millisecond.
	looks bool
	// latency is what the store takes for each command, beside its work, until the run's middle
	// is over.
	latency time.Duration

	load *load
}

// String names the run.
func (b *backlog) String() string {
	return drained{Partitions: b.partitions, Workers: b.workers}.String()
}

// String names the run.
func (d drained) String() string {
	if d.Partitions == 0 {
		return fmt.Sprintf("one queue, %d workers", d.Workers)
	}
	return fmt.Sprintf("%d partitions, %d workers", d.Partitions, d.Workers)
}

// drain has workers take the events on servers of their own, from when each worker has its
// partitions for good. In the end every event must be in its profile once.
func (b *backlog) drain(ctx context.Context, on *stack.Stack) (r drained, err error) {
	name := fmt.Sprintf("scale-%d-%d", b.partitions, b.workers)
	if b.Stack, err = on.Apart(name); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	b.Env = append(slices.Clone(b.Env), "RABBITMQ_PARTITIONS="+strconv.Itoa(b.partitions))
	if err := b.SetUp(ctx, sample.Products()); err != nil {
		return r, err
	}
	b.load = newLoad(b.Stack, rate{}, name)
	b.load.event, b.load.bySlot = b.event, b.partitions > 0
	admins := make([]string, b.workers)
	for i := range admins {
		if admins[i], err = b.Address(); err != nil {
			return r, err
		}
		if _, err = b.Launch([]string{"ADMIN_ADDR=" + admins[i]}, "work"); err != nil {
			return r, err
		}
	}
	if r, err = b.measure(ctx, admins); err != nil {
		return r, fmt.Errorf("%v: %w", b, err)
	}
	return r, b.complete(ctx, r.DeadLetters)
}

// measure waits for the balance, publishes, and waits until each event is in a profile or a
// dead letter: that of an event that goes to a delay queue, after too many conflicts, is
// acknowledged before.
func (b *backlog) measure(ctx context.Context, admins []string) (r drained, err error) {
	if err := b.settle(ctx, admins); err != nil {
		return r, fmt.Errorf("the workers are not balanced: %w", err)
	}
	first, err := b.look(ctx, admins)
	if err != nil {
		return r, err
	}
	restore, err := slow(ctx, b.Stack, b.latency)
	if err != nil {
		return r, err
	}
	published := make(chan error, 1)
	go func() { published <- b.load.stream(ctx, b.events, b.pause) }()
	steady := 0.0
	if b.looks {
		steady, err = b.steady(ctx, admins, first)
	}
	if err = errors.Join(err, <-published, restore()); err != nil {
		return r, err
	}
	dead := 0
	if err = b.load.await(ctx, settledLimit, func(ctx context.Context) (int, error) {
		dead, err = deadLetters(ctx, b.Stack)
		return dead, err
	}); err != nil {
		return r, err
	}
	last, err := b.look(ctx, admins)
	if err != nil {
		return r, err
	}
	r = last.since(first, b.events)
	r.Partitions, r.Workers, r.DeadLetters = b.partitions, b.workers, dead
	if b.looks {
		r.Rate = steady
	}
	return r, nil
}

// settledLimit is longer than all delays of one event together (5, 10, 20, 40 and 60 s).
const settledLimit = 4 * time.Minute

// What part of the events is acknowledged when the middle of a run begins, and when it ends.
// A worker with 6 of 64 partitions where others have 7 has taken 93 % of its own at the end.
const (
	beginAt = 0.2
	endAt   = 0.8
)

// steady returns the events per second of the run's middle.
func (b *backlog) steady(ctx context.Context, admins []string, first look) (float64, error) {
	var begin, end look
	reached := func(part float64, l *look) error {
		return stack.Poll(ctx, lookEvery, func() (_ bool, err error) {
			*l, err = b.look(ctx, admins)
			return l.m[acked]-first.m[acked] >= part*float64(b.events), err
		})
	}
	if err := errors.Join(reached(beginAt, &begin), reached(endAt, &end)); err != nil {
		return 0, err
	}
	if end.m[acked] == begin.m[acked] { // too short for two looks
		begin = first
	}
	return ratio(end.m[acked]-begin.m[acked], end.at.Sub(begin.at).Seconds()), nil
}

// lookEvery is the time between two looks.
const lookEvery = 250 * time.Millisecond

// complete fails unless each event was folded once. Only workers that compete may have dead
// letters: events that met a conflict in every attempt. The error names the queues that
// hold events.
func (b *backlog) complete(ctx context.Context, dead int) error {
	if b.load.missing == dead && b.load.folded == b.events-dead && (dead == 0 || b.partitions == 0) {
		return nil
	}
	depths, err := b.Broker.Depths(b.load.mark)
	maps.DeleteFunc(depths, func(_ string, n int) bool { return n == 0 })
	return errors.Join(err, ctx.Err(), fmt.Errorf("%v: of %d events %d are in no profile, %d are dead letters, and %d were folded; the queues hold %v",
		b, b.events, b.load.missing, dead, b.load.folded, depths))
}

// settle waits until each worker consumes, and has its share of the partitions.
func (b *backlog) settle(ctx context.Context, admins []string) error {
	err := stack.Poll(ctx, 100*time.Millisecond, func() (bool, error) {
		l, err := b.look(ctx, admins)
		return int(l.m["keyfold_rabbitmq_connected"]) == b.workers, err
	})
	if err != nil || b.partitions == 0 {
		return err
	}
	var since time.Time
	seen := -1.0
	return stack.Poll(ctx, 500*time.Millisecond, func() (bool, error) {
		l, err := b.look(ctx, admins)
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
	queues, err := b.Broker.Queues(b.load.mark)
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
	if len(owned) != min(b.workers, b.partitions) {
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
	acked     = "keyfold_rabbitmq_acked_total"
	moves     = "keyfold_partition_moves_total"
	conflicts = "keyfold_conflicts_total"
	delayed   = "keyfold_retries_total"
	writes    = "keyfold_profile_writes_total"
	flushes   = "keyfold_flush_seconds_count"
	folded    = `keyfold_events_total{outcome="folded"}`
)

func (b *backlog) look(ctx context.Context, admins []string) (l look, err error) {
	l.m = metrics{}
	for _, admin := range admins {
		m, err := readMetrics(ctx, admin)
		if err != nil {
			return l, err
		}
		for name, n := range m {
			l.m[name] += n
		}
	}
	l.at, l.workers = time.Now(), time.Duration(l.m["process_cpu_seconds_total"]*float64(time.Second))
	broker, brokerErr := report.UsageOf(b.Broker.PID())
	store, storeErr := report.UsageOf(b.Store.PID())
	l.broker, l.store = broker.Processor, store.Processor
	return l, errors.Join(brokerErr, storeErr)
}

// drained are the figures of a run.
type drained struct {
	Partitions, Workers, Events, DeadLetters int // partitions are 0 where the workers compete for one queue
	Seconds, Rate                            float64
	Conflicts, Delayed                       float64 // per 1,000 events; delayed: to a delay queue, after too many conflicts
	WritesEach, FlushWrites                  float64 // writes of an event, of a flush
	WorkerCPU, BrokerCPU, StoreCPU           float64 // ms of an event
	Share                                    float64 // of all processors, by workers, broker and store
	OfOne                                    float64 // the figure in question, as a multiple of that of the fewest workers
}

// add adds the figures. What is of one and of linear is of the scenario's figure in question.
func (d drained) add(r *report.Report) {
	add := r.Of(d.String())
	add("events", "", float64(d.Events))
	add("took", "s", d.Seconds)
	add("rate", "events/s", d.Rate)
	add("worker", "ms an event", d.WorkerCPU)
	add("of one", "x", d.OfOne)
	add("of linear", "x", d.ofLinear())
	add("conflicts", "of 1,000", d.Conflicts)
	add("delayed", "of 1,000", d.Delayed)
	add("dead letters", "", float64(d.DeadLetters))
	add("writes an event", "", d.WritesEach)
	add("writes a flush", "", d.FlushWrites)
	add("broker", "ms an event", d.BrokerCPU)
	add("store", "ms an event", d.StoreCPU)
	add("all processors", "%", 100*d.Share)
}

func (d drained) expectFewConflicts(r *report.Report) {
	r.Expect(d.Conflicts <= mostConflicts, "%v have %.2f conflicts per 1,000 events, more than %.0f", d, d.Conflicts, mostConflicts)
}

func (l look) since(first look, events int) drained {
	n := func(series string) float64 { return l.m[series] - first.m[series] }
	took := l.at.Sub(first.at).Seconds()
	each := func(d time.Duration) float64 { return ratio(1000*d.Seconds(), float64(events)) }
	workers, broker, store := l.workers-first.workers, l.broker-first.broker, l.store-first.store
	return drained{
		Events: events, Seconds: took, Rate: ratio(float64(events), took),
		Conflicts: ratio(1000*n(conflicts), float64(events)), Delayed: ratio(1000*n(delayed), float64(events)),
		WritesEach: ratio(n(writes), n(folded)), FlushWrites: ratio(n(writes), n(flushes)),
		WorkerCPU: each(workers), BrokerCPU: each(broker), StoreCPU: each(store),
		Share: (workers + broker + store).Seconds() / took / float64(runtime.NumCPU()),
	}
}

// compare sets each run beside that of the fewest workers on the same queues.
func compare(runs []drained, figure func(drained) float64) {
	for i := range runs {
		one := runs[slices.IndexFunc(runs, func(d drained) bool { return d.Partitions == runs[i].Partitions })]
		runs[i].OfOne = ratio(figure(runs[i]), figure(one))
	}
}

// ratio is 0 where there is nothing to divide by, as in runs that are too short to measure.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
