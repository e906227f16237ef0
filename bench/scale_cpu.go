package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
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

// cpuReport is what scaleCPUCmd prints.
type cpuReport struct {
	Rate  string    `json:"rate"`
	Total bool      `json:"total"`
	Runs  []drained `json:"runs"` // their of_one is that of the workers' processor time per event
	Left  []string  `json:"not_measured"`
}

// Run measures and prints.
func (c *scaleCPUCmd) Run(ctx context.Context) error {
	r := cpuReport{Rate: c.Rate.String(), Total: c.Total}
	var err error
	r.Runs, r.Left, err = c.grid(ctx, nil, func(partitions, workers int) *backlog {
		pause := c.Rate.pause
		if !c.Total {
			pause /= time.Duration(workers)
		}
		n := max(1, int(c.For/pause))
		return &backlog{partitions: partitions, workers: workers, events: n, pause: pause, event: visits(n, 1/pause.Seconds())}
	})
	compare(r.Runs, func(d drained) float64 { return d.WorkerCPU })
	return errors.Join(c.emit(r, r.print), err, c.misses(&r))
}

func (r *cpuReport) print(w io.Writer) error {
	of := "each worker"
	if r.Total {
		of = "all workers together"
	}
	_, err := fmt.Fprintf(w, `default settings, events of visits at %s for %s
               workers  events  ms of CPU/event  of one  conflicts/1,000  dead letters  writes/event  writes/flush  ms of CPU/event: broker  store  all processors
`, r.Rate, of)
	for _, d := range r.Runs {
		_, failed := fmt.Fprintf(w, "%-14s %7d  %6d  %15.3f  %6.2f  %15.1f  %12d  %12.3f  %12.2f  %23.3f  %5.3f  %12.0f %%\n", way(d.Partitions), d.Workers, d.Events,
			d.WorkerCPU, d.OfOne, d.Conflicts, d.DeadLetters, d.WritesEach, d.FlushWrites, d.BrokerCPU, d.StoreCPU, 100*d.Share)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, printLeft(w, r.Left))
}

// mostCPU is the target of the processor time per event, as a multiple of one worker's.
const mostCPU = 1.3

// misses says which targets were missed. Workers on one queue have none: see docs/SCALING.md.
func (c *scaleCPUCmd) misses(r *cpuReport) (err error) {
	if !c.Check || c.Total {
		return nil
	}
	for _, d := range r.Runs {
		if d.Partitions > 0 && d.OfOne > mostCPU {
			err = errors.Join(err, fmt.Errorf("%s, %d workers use %.2f times the processor time per event of one, more than %.1f", way(d.Partitions), d.Workers, d.OfOne, mostCPU))
		}
		if d.Partitions > 0 && d.Conflicts > mostConflicts {
			err = errors.Join(err, fmt.Errorf("%s, %d workers have %.2f conflicts per 1,000 events, more than %.0f", way(d.Partitions), d.Workers, d.Conflicts, mostConflicts))
		}
	}
	return err
}
