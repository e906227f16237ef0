package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"keyfold/internal/testserver/mongotest"
	"keyfold/proof/stack"
)

// scaleWorkersCmd is the latency-bound measurement: a slow store, and so small a prefetch that
// workers wait for the store nearly all the time. It shows whether workers get in each
// other's way; what a worker with its default settings takes is in scaleCPUCmd.
type scaleWorkersCmd struct {
	scaleFlags `embed:""`

	Events   int           `default:"600" help:"Events for each worker."`
	Latency  time.Duration `default:"300ms" help:"What the store takes for each command, beside its work."`
	Prefetch int           `default:"256" help:"WORKER_PREFETCH: events that a worker holds at most."`
}

// scaleReport is what scaleWorkersCmd prints.
type scaleReport struct {
	Latency  float64   `json:"store_latency_ms"`
	Prefetch int       `json:"worker_prefetch"`
	Runs     []drained `json:"runs"` // their of_one is that of the rate
	Left     []string  `json:"not_measured"`
}

// eventsEach is how many events a second of each worker's visitors are mixed as.
const eventsEach = 100

// Run measures and prints.
func (c *scaleWorkersCmd) Run(ctx context.Context) error {
	r := scaleReport{Latency: float64(c.Latency.Microseconds()) / 1000, Prefetch: c.Prefetch}
	var err error
	r.Runs, r.Left, err = c.grid(ctx, []string{fmt.Sprintf("WORKER_PREFETCH=%d", c.Prefetch)}, func(partitions, workers int) *backlog {
		n := workers * c.Events
		return &backlog{partitions: partitions, workers: workers, events: n, event: visits(n, float64(workers*eventsEach)), looks: true, latency: c.Latency}
	})
	compare(r.Runs, func(d drained) float64 { return d.Rate })
	return errors.Join(c.emit(r, r.print), err, c.misses(&r))
}

// slow has the store wait for a latency before each command of a worker, until restore.
func slow(ctx context.Context, s *stack.Stack, latency time.Duration) (restore func() error, err error) {
	if latency == 0 {
		return func() error { return nil }, nil
	}
	control, err := mongotest.Dial(ctx, s.Store.Address())
	if err != nil {
		return nil, err
	}
	fault, err := control.Inject(mongotest.Fault{
		Commands: []string{"find", "aggregate", "insert", "update", "delete", "findAndModify"}, BlockConnection: true, BlockTimeMS: latency.Milliseconds(),
	})
	if err != nil {
		return nil, errors.Join(err, control.Close())
	}
	return func() error { return errors.Join(control.Remove(fault), control.Close()) }, nil
}

func (r *scaleReport) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, `bound by the store's latency: %.0f ms a command, WORKER_PREFETCH=%d, all other settings default; a backlog, from %.0f %% to %.0f %% of its acknowledgements
               workers  events/s  of one  of linear  conflicts/1,000  delayed/1,000  dead letters  writes/event  all processors
`, r.Latency, r.Prefetch, 100*beginAt, 100*endAt)
	for _, d := range r.Runs {
		_, failed := fmt.Fprintf(w, "%-14s %7d  %8.0f  %6.2f  %9.2f  %15.1f  %13.1f  %12d  %12.3f  %12.0f %%\n", way(d.Partitions), d.Workers,
			d.Rate, d.OfOne, d.ofLinear(), d.Conflicts, d.Delayed, d.DeadLetters, d.WritesEach, 100*d.Share)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, printLeft(w, r.Left))
}

// printLeft names the runs that had no time left.
func printLeft(w io.Writer, left []string) (err error) {
	for _, name := range left {
		_, failed := fmt.Fprintf(w, "not measured, as the time of --limit was used up: %s\n", name)
		err = errors.Join(err, failed)
	}
	return err
}

// ofLinear is the run's rate as a part of as many times one worker's.
func (d drained) ofLinear() float64 { return ratio(d.OfOne, float64(d.Workers)) }

// Targets for partitions.
const (
	leastOfLinear = 0.8
	mostConflicts = 1.0
	mostOfAll     = 0.7 // share of the processors, beyond which they are the bound and not the store
)

// misses says which targets were missed.
func (c *scaleWorkersCmd) misses(r *scaleReport) (err error) {
	if !c.Check {
		return nil
	}
	miss := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	for _, d := range r.Runs {
		switch {
		case d.Partitions == 0:
			continue
		case d.Share > mostOfAll:
			miss("%s, %d workers: %.0f %% of the processors were used, so that the store's latency was not the bound; raise --latency", way(d.Partitions), d.Workers, 100*d.Share)
		case d.ofLinear() < leastOfLinear:
			miss("%s, %d workers reach %.2f of linear, less than %.2f", way(d.Partitions), d.Workers, d.ofLinear(), leastOfLinear)
		}
		if d.Conflicts > mostConflicts {
			miss("%s, %d workers have %.2f conflicts per 1,000 events, more than %.0f", way(d.Partitions), d.Workers, d.Conflicts, mostConflicts)
		}
	}
	return err
}
