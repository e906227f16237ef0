package main

import (
	"context"
	"time"

	"keyfold/internal/report"
)

// scaleCPUCmd measures what an event costs many workers, each with its default settings, at a
// rate that they take with ease: what one of them does beside the others shows in its
// processor time, on a machine that has too few processors to run ten at full speed.
type scaleCPUCmd struct {
	scaleFlags `embed:""`

	Rate  rate          `default:"100/s" help:"Events per unit of time for each worker."`
	For   time.Duration `default:"10s" help:"How long events are published in each run."`
	Total bool          `help:"The rate is that of all workers together: each has less to do where they are more."`
}

// Run measures.
func (c *scaleCPUCmd) Run(ctx context.Context, r *report.Report) error {
	runs, err := c.grid(ctx, r, nil, func(d drained) float64 { return d.WorkerCPU }, func(partitions, workers int) *backlog {
		pause := c.Rate.pause
		if !c.Total {
			pause /= time.Duration(workers)
		}
		n := max(1, int(c.For/pause))
		return &backlog{partitions: partitions, workers: workers, events: n, pause: pause, event: visits(n, 1/pause.Seconds())}
	})
	c.judge(r, runs)
	return err
}

// mostCPU is the target of the processor time per event, as a multiple of one worker's.
const mostCPU = 1.3

// judge says which targets were missed. Workers on one queue have none: see docs/SCALING.md.
func (c *scaleCPUCmd) judge(r *report.Report, runs []drained) {
	for _, d := range runs {
		if d.Partitions > 0 && c.Check && !c.Total {
			r.Expect(d.OfOne <= mostCPU, "%v use %.2f times the processor time per event of one, more than %.1f", d, d.OfOne, mostCPU)
			d.expectFewConflicts(r)
		}
	}
}
