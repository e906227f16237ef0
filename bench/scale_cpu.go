package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"keyfold/bench/stack"
)

// scaleCPUCmd drains the same backlog with one worker and with many, each a process of
// `keyfold work` with its default settings.
type scaleCPUCmd struct {
	scaleFlags `embed:""`

	Workers int `default:"10" help:"Workers to compare with one."`
	Events  int `default:"150000" help:"Events in the queues."`
	Runs    int `default:"3" help:"Runs with one worker and with many, in turn; the medians count."`
}

// cpuReport is what scaleCPUCmd prints.
type cpuReport struct {
	Partitions int     `json:"partitions"`
	Users      int     `json:"users"`
	One        drained `json:"one"`
	Many       drained `json:"many"`
	Ratio      float64 `json:"ratio"` // of the processor time per event
}

// Run measures and prints.
func (c *scaleCPUCmd) Run(ctx context.Context) error {
	return c.run(ctx, func(ctx context.Context, s *stack.Stack) error {
		alone, together, err := inTurn(c.Runs, func(n int, many bool) (drained, error) {
			b := &backlog{
				Stack: s, flags: &c.scaleFlags, name: "cpu" + strconv.Itoa(n+1),
				partitions: c.Partitions, workers: 1, events: c.Events, start: startProcess,
			}
			if many {
				b.workers = c.Workers
			}
			return b.drain(ctx)
		})
		if err != nil {
			return err
		}
		perEvent := func(d drained) float64 { return d.WorkerCPU }
		r := cpuReport{Partitions: c.Partitions, Users: c.Users, One: median(alone, perEvent), Many: median(together, perEvent)}
		r.Ratio = ratio(r.Many.WorkerCPU, r.One.WorkerCPU)
		return errors.Join(c.emit(r, r.print), c.misses(&r))
	})
}

// startProcess starts `keyfold work`.
func startProcess(b *backlog, _ int) (w member, err error) {
	admin, err := b.Address()
	if err != nil {
		return w, err
	}
	w.metrics = func(ctx context.Context) (map[string]float64, error) { return readMetrics(ctx, admin) }
	w.stop, err = b.Launch([]string{"ADMIN_ADDR=" + admin}, "work")
	return w, err
}

func (r *cpuReport) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d partitions, %d users\n", r.Partitions, r.Users)
	for _, d := range []drained{r.One, r.Many} {
		_, failed := fmt.Fprintf(w, "%2d workers  %.3f ms of processor time an event, %.0f events/s, %.3f writes an event; processors: workers %.0f %%, broker %.0f %%, store %.0f %%\n",
			d.Workers, d.WorkerCPU, d.Rate, d.WritesEach, 100*d.WorkersShare, 100*d.BrokerShare, 100*d.StoreShare)
		err = errors.Join(err, failed)
	}
	_, failed := fmt.Fprintf(w, "ratio       %.2f\n", r.Ratio)
	return errors.Join(err, failed)
}

// mostCPU is the target of the ratio.
const mostCPU = 1.3

func (c *scaleCPUCmd) misses(r *cpuReport) error {
	if !c.Check || c.Zipf || r.Ratio <= mostCPU {
		return nil
	}
	return fmt.Errorf("%d workers use %.2f times the processor time per event of one, more than %.1f", r.Many.Workers, r.Ratio, mostCPU)
}
