package main

import (
	"context"
	"time"

	"keyfold/bench/workload"
	"keyfold/engine/notify"
	"keyfold/internal/report"
)

// backlogCmd publishes urgent events beside a backlog of bulk ones.
type backlogCmd struct {
	notifyFlags `embed:"" set:"users=20000"`

	Events   int           `default:"1000000" help:"Bulk events in the queue before the worker starts."`
	Rate     rate          `default:"20/s" help:"Urgent events per unit of time."`
	Duration time.Duration `default:"60s" help:"How long to publish urgent events."`
}

// promisedUrgent is how soon an urgent event is decided.
const promisedUrgent = time.Second

// Run measures.
func (c *backlogCmd) Run(ctx context.Context, r *report.Report) error {
	return c.run(ctx, r, func(ctx context.Context, b *notifyBench) error {
		bulk, err := b.traffic(zipf, notify.Reminder, notify.Update, notify.Digest, notify.Promo)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := b.preload(ctx, bulk, c.Events); err != nil {
			return err
		}
		r.Add("backlog", "bulk events", float64(c.Events))
		r.Add("backlog published in", "s", time.Since(began).Seconds())
		if err := b.start(ctx, 1); err != nil {
			return err
		}
		b.Seed++ // other ids
		urgent, err := b.traffic(zipf, notify.Security, notify.Alert, notify.System, notify.Message)
		if err != nil {
			return err
		}
		p := b.newPaced(urgent, c.Rate, phase{span: c.Duration})
		if err := p.run(ctx); err != nil {
			return err
		}
		time.Sleep(2 * promisedUrgent)
		committed, err := workload.Committed(ctx, b.Ledger, 0)
		if err != nil {
			return err
		}
		m := b.metrics(ctx)
		left, err := b.waiting()
		if err != nil {
			return err
		}
		l := between(p.published.all(), committed)
		r.Add("bulk events decided meanwhile", "events/s", float64(m.settled()-int(l.TotalCount()))/c.Duration.Seconds())
		r.Add("left in the end", "events", float64(left))
		r.Add("urgent published", "events", float64(p.events()))
		r.Latency("urgent to commit", l)
		b.promised(left > 0, "the backlog of %d events was gone by the end: the run proves nothing, raise --events", c.Events)
		b.promised(int(l.TotalCount()) == p.events(), "%d urgent events were not decided within %v", p.events()-int(l.TotalCount()), 2*promisedUrgent)
		b.promised(l.Seconds(100) <= promisedUrgent.Seconds(), "an urgent event was decided after %.2f s, promised are %v", l.Seconds(100), promisedUrgent)
		return nil
	})
}
