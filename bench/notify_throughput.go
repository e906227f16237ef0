package main

import (
	"context"
	"fmt"
	"time"

	"keyfold/bench/workload"
	"keyfold/engine/notify"
)

// throughputCmd drains preloaded queues with one worker.
type throughputCmd struct {
	notifyFlags `embed:"" set:"users=20000"`

	Events int           `default:"40000" help:"Events in the queues."`
	Runs   int           `default:"3" help:"Runs; the median counts."`
	Limit  time.Duration `default:"10m" help:"Of one run."`
}

// Run measures and prints.
func (c *throughputCmd) Run(ctx context.Context) error {
	return c.run(ctx, func(ctx context.Context, b *notifyBench) error {
		t, err := b.traffic(zipf)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "%d events of at most %d Zipf users, %d runs\n", c.Events, c.Users, c.Runs)
		var runs []throughput
		for range c.Runs {
			r, err := b.drain(ctx, t, c.Events, 1, c.Limit)
			if err != nil {
				return err
			}
			fmt.Fprintf(b.out, "run          %.0f decisions/s\n", r.rate())
			runs = append(runs, r)
		}
		r := median(runs, throughput.rate)
		r.print(b)
		return nil
	})
}

// throughput is one run.
type throughput struct {
	events     int
	took       time.Duration // from the first verdict to the last
	m          metrics       // of the workers
	roundTrips int64
	used       used
}

func (r throughput) rate() float64 { return float64(r.events) / r.took.Seconds() }

// drain publishes n events, has so many workers decide them, and clears up.
func (b *notifyBench) drain(ctx context.Context, t *workload.Traffic, n, workers int, limit time.Duration) (r throughput, err error) {
	if err := b.preload(ctx, t, n); err != nil {
		return r, err
	}
	r.events = n
	before, err := b.used(nil)
	if err != nil {
		return r, err
	}
	asked, err := workload.RoundTrips(ctx, b.Ledger)
	if err != nil {
		return r, err
	}
	if err := b.start(ctx, workers); err != nil {
		return r, err
	}
	began := time.Now()
	if _, err := b.await(ctx, 1, limit); err != nil {
		return r, err
	}
	if first := time.Now(); b.metrics(ctx).settled() < n/10 {
		began = first
	}
	if r.m, err = b.await(ctx, n, limit); err != nil {
		return r, err
	}
	r.took = time.Since(began)
	after, err := b.used(r.m)
	if err != nil {
		return r, err
	}
	r.used = after.since(before)
	time.Sleep(1500 * time.Millisecond) // the last backends count theirs
	if r.roundTrips, err = workload.RoundTrips(ctx, b.Ledger); err != nil {
		return r, err
	}
	r.roundTrips -= asked
	left, err := b.waiting()
	if err == nil && left > 0 {
		err = fmt.Errorf("%d messages are not acknowledged, or dead letters, after all events have their verdict", left)
	}
	if err == nil && r.m["keyfold_notify_dispatched_total"] == 0 {
		err = fmt.Errorf("nothing was dispatched")
	}
	if err != nil {
		return r, err
	}
	if err := b.stop(); err != nil {
		return r, err
	}
	return r, b.clear(ctx)
}

func (r throughput) print(b *notifyBench) {
	n, flushes := float64(r.events), max(1, r.m["keyfold_notify_flushes_total"])
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / n }
	of := func(d time.Duration) float64 { return 100 * d.Seconds() / r.took.Seconds() }
	fmt.Fprintf(b.out, `decisions    %.0f/s from queue to confirmed dispatch and acknowledgement: NOW %.0f, LATER %.0f, NEVER %.0f; %.0f dispatched
PostgreSQL   %.2f round trips a flush, %.3f a decision; %.0f flushes of %.1f events and %.1f users, %.0f conflicts
processor    worker %.2f ms, broker %.2f ms, PostgreSQL %.2f ms a decision: %.0f %%, %.0f %% and %.0f %% of a core
`,
		r.rate(), r.m.decided(notify.Now), r.m.decided(notify.Later), r.m.decided(notify.Never), r.m["keyfold_notify_dispatched_total"],
		float64(r.roundTrips)/flushes, float64(r.roundTrips)/n, flushes, n/flushes, r.m["keyfold_notify_commits_total"]/flushes, r.m["keyfold_notify_conflicts_total"],
		each(r.used.worker), each(r.used.broker), each(r.used.sql), of(r.used.worker), of(r.used.broker), of(r.used.sql))
}

// pairCmd has two workers decide for the same users.
type pairCmd struct {
	notifyFlags `embed:"" set:"users=100"`

	Events int           `default:"10000" help:"Events in the queues."`
	Runs   int           `default:"3" help:"Runs with one worker and with two, in turn; the medians count."`
	Limit  time.Duration `default:"10m" help:"Of one run."`
}

// Run measures and prints.
func (c *pairCmd) Run(ctx context.Context) error {
	return c.run(ctx, func(ctx context.Context, b *notifyBench) error {
		t, err := b.traffic(0)
		if err != nil {
			return err
		}
		alone, both, err := inTurn(c.Runs, func(_ int, two bool) (throughput, error) {
			workers := 1
			if two {
				workers = 2
			}
			return b.drain(ctx, t, c.Events, workers, c.Limit)
		})
		if err != nil {
			return err
		}
		one, two := median(alone, throughput.rate), median(both, throughput.rate)
		fmt.Fprintf(b.out, `%d events of %d users, medians of %d
one worker   %.0f decisions/s, %s
two workers  %.0f decisions/s, %.0f %% of one worker's, %s
`,
			c.Events, c.Users, c.Runs, one.rate(), one.conflicts(), two.rate(), 100*two.rate()/one.rate(), two.conflicts())
		return nil
	})
}

// conflicts tells what share of the changes met another version.
func (r throughput) conflicts() string {
	n, written := r.m["keyfold_notify_conflicts_total"], r.m["keyfold_notify_commits_total"]
	return fmt.Sprintf("%.0f conflicts of %.0f changes (%.1f %%)", n, n+written, 100*n/max(1, n+written))
}
