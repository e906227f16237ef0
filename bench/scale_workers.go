package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyfold/internal/report"
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

// eventsEach is how many events a second of each worker's visitors are mixed as.
const eventsEach = 100

// Run measures. The rates are those from beginAt to endAt of the acknowledgements.
func (c *scaleWorkersCmd) Run(ctx context.Context, r *report.Report) error {
	env := []string{fmt.Sprintf("WORKER_PREFETCH=%d", c.Prefetch)}
	runs, err := c.grid(ctx, r, env, func(d drained) float64 { return d.Rate }, func(partitions, workers int) *backlog {
		n := workers * c.Events
		return &backlog{partitions: partitions, workers: workers, events: n, event: visits(n, float64(workers*eventsEach)), looks: true, latency: c.Latency}
	})
	c.judge(r, runs)
	return err
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

// ofLinear is the run's rate as a part of as many times one worker's.
func (d drained) ofLinear() float64 { return ratio(d.OfOne, float64(d.Workers)) }

// Targets for partitions.
const (
	leastOfLinear = 0.8
	mostConflicts = 1.0
	mostOfAll     = 0.7 // share of the processors, beyond which they are the bound and not the store
)

// judge says which targets were missed, and how the rate grew with the workers. Workers on one
// queue have no target.
func (c *scaleWorkersCmd) judge(r *report.Report, runs []drained) {
	for _, d := range runs {
		if d.Partitions == 0 || !c.Check {
			continue
		}
		if d.Share > mostOfAll {
			r.Expect(false, "%v: %.0f %% of the processors were used, so that the store's latency was not the bound; raise --latency", d, 100*d.Share)
		} else if d.Workers > 1 {
			r.Judge(report.SC006, d.ofLinear() >= leastOfLinear, "%v reach %.2f of linear", d, d.ofLinear())
		}
		d.expectFewConflicts(r)
	}
}
