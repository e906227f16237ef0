package notifications

import (
	"errors"
	"fmt"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/service/notify/broker"

	"keyfold/engine"
	"keyfold/engine/notify/processor"
	"keyfold/sink/ledger/postgres"
	"keyfold/source/rabbit"
)

// redispatchCmd dispatches what was decided NOW and not confirmed.
type redispatchCmd struct {
	OlderThan cli.Span `name:"older-than" default:"5m" help:"Minimum time since the decision: 5m, 2h."`
	DryRun    bool     `name:"dry-run" help:"Say how many notifications wait, and dispatch none."`
}

// Help is the long text.
func (c *redispatchCmd) Help() string {
	return `Workers do the same by themselves, a minute after a decision, and rest for up to 10 minutes from what
the broker refuses. This command does not rest: use it when the cause is cured, or when no worker runs.
A dispatch goes out under the id that it had: senders drop one that they know. What has expired is not
sent. Exit code 1 when some could not be dispatched.

Examples:
  keyfold notify redispatch --dry-run
  keyfold notify redispatch --older-than 1h`
}

func (c *redispatchCmd) Check(a *app.App) error {
	var fault error
	if c.OlderThan <= 0 {
		fault = errors.New("--older-than must be above 0, such as 5m: younger ones are being dispatched")
	}
	return errors.Join(fault, a.CheckBroker(), a.CheckLedger())
}

// dispatchTimeout bounds one call of the broker: an alarm makes it take nothing.
const dispatchTimeout = 30 * time.Second

// Run dispatches and prints how many.
func (c *redispatchCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		before := engine.Now() - engine.Millis(time.Duration(c.OlderThan).Milliseconds())
		waiting, oldest, err := l.CountUndispatched(a.Ctx, before)
		if err != nil {
			return err
		}
		report := redispatched{Waiting: waiting, DryRun: c.DryRun}
		if oldest > 0 {
			report.Oldest = cli.At(oldest.Time())
		}
		if !c.DryRun && waiting > 0 {
			err = a.WithPublisher("redispatch", func(p *rabbit.Publisher) error { return report.sweep(a, l, p, before) })
		}
		return errors.Join(err, a.Emit(report, report.print))
	})
}

// redispatched is what a run has found and done.
type redispatched struct {
	Waiting    int64  `json:"waiting"` // notifications, before the run
	Oldest     string `json:"oldest_decided_at,omitempty"`
	Dispatched int64  `json:"dispatched"` // messages: a digest is one
	Expired    int64  `json:"expired"`
	DryRun     bool   `json:"dry_run"`
}

func (r *redispatched) sweep(a *app.App, l *postgres.Ledger, p *rabbit.Publisher, before engine.Millis) error {
	sender := broker.NewSender(p, dispatchTimeout)
	links, err := linksOf(a, nil)
	if err != nil {
		return err
	}
	sender.Links = links
	sweeper, err := processor.New(processor.DefaultConfig(), processor.Ports{Ledger: l, Dispatcher: sender, Log: a.Log})
	if err != nil {
		return err
	}
	confirmed, err := sweeper.Sweep(a.Ctx, before)
	r.Expired = sweeper.Stats().Expired.Load()
	r.Dispatched = sweeper.Stats().Dispatched.Load()
	if err != nil {
		return fmt.Errorf("some notifications still wait (%d messages were dispatched): %w", confirmed, err)
	}
	return nil
}

func (r *redispatched) print(w *cli.Text) {
	switch {
	case r.Waiting == 0:
		w.Line("no notification waits for its dispatch")
	case r.DryRun:
		w.Line("%s would be dispatched, the oldest decided at %s", cli.Count(r.Waiting, "notification"), r.Oldest)
	default:
		w.Line("%s found, %s dispatched, %d expired", cli.Count(r.Waiting, "notification"), cli.Count(r.Dispatched, "message"), r.Expired)
	}
}
