package main

import (
	"context"
	"fmt"
	"time"

	"keyfold/bench/workload"
	"keyfold/engine/notify"
	"keyfold/internal/report"
)

// throughputCmd drains preloaded queues with one worker.
type throughputCmd struct {
	notifyFlags `embed:"" set:"users=20000"`

	Events int           `default:"40000" help:"Events in the queues."`
	Runs   int           `default:"3" help:"Runs; the median counts."`
	Limit  time.Duration `default:"10m" help:"Of one run."`
}

// Run measures.
func (c *throughputCmd) Run(ctx context.Context, r *report.Report) error {
	return c.run(ctx, r, func(ctx context.Context, b *notifyBench) error {
		t, err := b.traffic(zipf)
		if err != nil {
			return err
		}
		for range c.Runs {
			run, err := b.drain(ctx, t, c.Events, 1, c.Limit)
			if err != nil {
				return err
			}
			run.add(r)
		}
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

func (r throughput) add(to *report.Report) {
	n, flushes := float64(r.events), max(1, r.m["keyfold_notify_flushes_total"])
	to.Add("decisions, from queue to confirmed dispatch and acknowledgement", "1/s", r.rate())
	r.m.outcomes(to)
	to.Add("dispatched", "", r.m["keyfold_notify_dispatched_total"])
	to.Add("round trips to PostgreSQL a flush", "", float64(r.roundTrips)/flushes)
	to.Add("round trips to PostgreSQL a decision", "", float64(r.roundTrips)/n)
	to.Add("flushes", "", flushes)
	to.Add("events a flush", "", n/flushes)
	to.Add("users a flush", "", r.m["keyfold_notify_commits_total"]/flushes)
	to.Add("conflicts", "", r.m["keyfold_notify_conflicts_total"])
	for _, part := range []struct {
		name string
		used time.Duration
	}{{"worker", r.used.worker}, {"broker", r.used.broker}, {"PostgreSQL", r.used.sql}} {
		to.Add("processor time of "+part.name, "ms a decision", part.used.Seconds()*1000/n)
		to.Add("processor of "+part.name, "% of a core", 100*part.used.Seconds()/r.took.Seconds())
	}
}

// outcomes adds how many events were decided in which way.
func (m metrics) outcomes(to *report.Report) {
	for _, o := range []notify.Outcome{notify.Now, notify.Later, notify.Never} {
		to.Add("decided "+o.String(), "", m.decided(o))
	}
}

// pairCmd has two workers decide for the same users.
type pairCmd struct {
	notifyFlags `embed:"" set:"users=100"`

	Events int           `default:"10000" help:"Events in the queues."`
	Runs   int           `default:"3" help:"Runs with one worker and with two, in turn; the medians count."`
	Limit  time.Duration `default:"10m" help:"Of one run."`
}

// Run measures.
func (c *pairCmd) Run(ctx context.Context, r *report.Report) error {
	return c.run(ctx, r, func(ctx context.Context, b *notifyBench) error {
		t, err := b.traffic(0)
		if err != nil {
			return err
		}
		const one, two = "one worker", "two workers"
		err = inTurn(c.Runs, func(n int, both bool) error {
			workers, name := 1, one
			if both {
				workers, name = 2, two
			}
			run, err := b.drain(ctx, t, c.Events, workers, c.Limit)
			if err == nil && n >= 0 {
				run.conflicts(r.Of(name))
			}
			return err
		})
		if err != nil {
			return err
		}
		r.Add("two workers, of one worker's rate", "%", 100*r.Median(two, "decisions")/r.Median(one, "decisions"))
		return nil
	})
}

// conflicts adds the rate, and what share of the changes met another version.
func (r throughput) conflicts(add func(name, unit string, value float64)) {
	n, written := r.m["keyfold_notify_conflicts_total"], r.m["keyfold_notify_commits_total"]
	add("decisions", "1/s", r.rate())
	add("conflicts", "", n)
	add("changes", "", n+written)
	add("share of conflicts", "%", 100*n/max(1, n+written))
}
