package main

import (
	"errors"
	"fmt"
	"sync/atomic"

	"keyfold/cmd/terminal"
	"keyfold/engine"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// backfillCmd publishes what was never sent.
type backfillCmd struct {
	User   userID    `placeholder:"ID" help:"This user only."`
	Type   eventType `placeholder:"TYPE" help:"This event type only."`
	From   instant   `placeholder:"WHEN" help:"Events that occurred at this time or later: 2026-02-10T14:30:00Z, or how long ago: 2h, 3d."`
	Until  instant   `placeholder:"WHEN" help:"Events that occurred before this time."`
	Rate   rate      `default:"200/s" placeholder:"N/s" help:"Events a second at most."`
	DryRun bool      `help:"Count the events and publish nothing."`
}

// Help is the long text.
func (c *backfillCmd) Help() string {
	return `For rows no relay has published: stored by another program, or before there was a relay. What
was confirmed is marked, so that the same command goes on where it was stopped. History that was folded
before goes through keyfold user rebuild instead.

Examples:
  keyfold backfill --dry-run
  keyfold backfill --from 2026-01-01T00:00:00Z --rate 500/s`
}

func (c *backfillCmd) check(a *app) error {
	fault := errors.Join(checkSpan(c.From, c.Until, "--from", "--until"), a.checkDatabase())
	if c.DryRun {
		return fault
	}
	return errors.Join(fault, a.checkBroker())
}

func (c *backfillCmd) filter() outbox.Filter {
	f := outbox.Filter{UserID: int32(c.User), Type: c.Type.EventType, Sent: outbox.OnlyUnsent}
	if !c.From.IsZero() {
		f.From = engine.MillisOf(c.From.Time)
	}
	if !c.Until.IsZero() {
		f.Until = engine.MillisOf(c.Until.Time)
	}
	return f
}

// Run publishes at the rate until nothing is left.
func (c *backfillCmd) Run(a *app) (err error) {
	filter := c.filter()
	db, err := usableDatabase(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	total, err := db.Count(a.ctx, filter)
	if err != nil || c.DryRun {
		return errors.Join(err, c.print(a, 0, total))
	}
	// The relay below would wait for a broker that is away. Whoever typed a command
	// is told.
	names := rabbit.DefaultNames()
	if _, err := rabbit.Depth(a.ctx, a.servers.RabbitMQ, names.Queue); err != nil {
		return brokerUnreached(err)
	}
	p := rabbit.NewPublisher(a.servers.RabbitMQ, rabbit.ThisProcess("tool"), "backfill", rabbit.Timing{}, a.log)
	defer func() { err = errors.Join(err, closePublisher(a.ctx, p)) }()
	relay := outbox.NewRelay(db, toBroker{p, names, true}, outbox.RelayConfig{Rate: float64(c.Rate)}, a.log)
	var done atomic.Int64
	bar := a.progress("backfilling", total, done.Load)
	sent, err := relay.Drain(a.ctx, filter, func(n int64) {
		done.Store(n)
		bar.At(int(n))
	})
	bar.Done()
	if err != nil {
		return fmt.Errorf("%w (%d of %d were sent and marked; the same command goes on)", err, sent, total)
	}
	return c.print(a, sent, total-sent)
}

func (c *backfillCmd) print(a *app, sent, left int64) error {
	return a.emit(map[string]any{"sent": sent, "left": left, "dry_run": c.DryRun}, func(w *terminal.Text) {
		if c.DryRun {
			w.Line("%s would be published", terminal.Number(left))
			return
		}
		w.Line("%s published", terminal.Number(sent))
		if left > 0 {
			w.Line("%s are left: set aside (see keyfold outbox failed list), or held back behind a row that was refused", terminal.Number(left))
		}
	})
}
