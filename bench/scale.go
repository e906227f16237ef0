package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyfold/internal/report"
	"keyfold/proof/stack"
	"keyfold/source/sample"
)

// scaleCmd measures what partitions and more workers bring, and what they cost, on
// RabbitMQ 4. Workers that are killed are in proof/soak.
type scaleCmd struct {
	CPU     scaleCPUCmd     `cmd:"" name:"cpu" set:"partitions=16,0" help:"Processor time per event and write conflicts of 1 to 10 workers with their default settings: one queue beside partitions."`
	Workers scaleWorkersCmd `cmd:"" set:"partitions=64,0" help:"Events per second of 1 to 10 workers whose bound is the latency of a slow store: one queue beside partitions."`
	Latency loadCmd         `cmd:"" set:"partitions=16" help:"Publish at a rate to workers on partitions and measure event to profile."`
}

// scaleFlags are those of the measurements of many workers, each a process of
// `keyfold work`.
type scaleFlags struct {
	Partitions []int         `default:"${partitions}" help:"Numbers of partition queues to measure; 0: the workers compete for one queue."`
	Workers    []int         `default:"1,2,5,10" help:"Numbers of workers, 1 first: the others are compared with it."`
	Env        []string      `help:"Settings of all commands of keyfold, NAME=value; default: none, so that each has its default."`
	Programs   string        `placeholder:"DIR" help:"Folder with the keyfold to measure; default: this tree's is built."`
	Limit      time.Duration `default:"5m" help:"When the measurement ends; runs that have no time left are named."`
	Check      bool          `default:"true" negatable:"" help:"Fail where a figure misses its target."`
}

// closing is the part of the limit that is kept for ending workers and servers.
const closing = 15 * time.Second

// grid measures each number of workers with each number of partitions, and adds the runs that
// ended to the report, with what figure is of each as a multiple of one worker's.
func (f *scaleFlags) grid(
	ctx context.Context, r *report.Report, env []string, figure func(drained) float64, run func(partitions, workers int) *backlog,
) (runs []drained, err error) {
	if len(f.Workers) == 0 || f.Workers[0] != 1 {
		return nil, errors.New("--workers has to begin with 1: the others are compared with it")
	}
	end := time.Now().Add(f.Limit - closing)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	err = onServers(ctx, r, func(s *stack.Stack) {
		s.RabbitMQ, s.Programs = 4, f.Programs
		s.Env = append(append(s.Env, env...), f.Env...)
	}, func(ctx context.Context, s *stack.Stack, _ *report.Report) error {
		longest := time.Duration(0)
		for _, partitions := range f.Partitions {
			for _, workers := range f.Workers {
				b, began := run(partitions, workers), time.Now()
				if time.Until(end) < longest {
					r.Note("not measured, as the time of --limit was used up: %v", b)
					continue
				}
				d, err := b.drain(ctx, s)
				longest = max(longest, time.Since(began))
				switch {
				case errors.Is(err, context.DeadlineExceeded) && !time.Now().Before(end):
					r.Note("not measured, as the time of --limit was used up: %v", b)
				case err != nil:
					return err
				default:
					runs = append(runs, d)
				}
			}
		}
		return nil
	})
	if len(runs) == 0 {
		err = errors.Join(fmt.Errorf("no run ended within %v: raise --limit", f.Limit), err)
	}
	compare(runs, figure)
	for _, d := range runs {
		d.add(r)
	}
	return runs, err
}

// visits makes n events of a shop whose visitors make so many a second: the middle of a time
// that is long enough for as many visits to begin as to end.
func visits(n int, perSecond float64) eventMaker {
	const eventsOfVisit, around = 9, 200 * time.Second // a visit takes a minute or two
	g := sample.DefaultConfig(0)
	g.Span = time.Duration(float64(n)/perSecond*float64(time.Second)) + around
	g.Sessions = max(1, int(perSecond*g.Span.Seconds()/eventsOfVisit))
	g.Users, g.Skew, g.Repeats = 4*g.Sessions, 0, 0 // hardly any visitor comes twice
	bodies := sample.Events(g)
	bodies = bodies[max(0, len(bodies)-n)/2:]
	return ofBodies(bodies, true)
}
