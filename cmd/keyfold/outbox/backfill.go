package outbox

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/stream"
)

// BackfillCmd publishes what was never sent.
type BackfillCmd struct {
	User   cli.UserID    `placeholder:"ID" help:"This user only."`
	Type   cli.EventType `placeholder:"TYPE" help:"This event type only."`
	From   cli.Instant   `placeholder:"WHEN" help:"Events that occurred at this time or later: 2026-02-10T14:30:00Z, or how long ago: 2h, 3d."`
	Until  cli.Instant   `placeholder:"WHEN" help:"Events that occurred before this time."`
	Rate   cli.Rate      `default:"200/s" placeholder:"N/s" help:"Events a second at most."`
	DryRun bool          `help:"Count the events and publish nothing."`
}

// Help is the long text.
func (c *BackfillCmd) Help() string {
	return `For rows no relay has published: stored by another program, or before there was a relay. What
was confirmed is marked, so that the same command goes on where it was stopped. History that was folded
before goes through keyfold user rebuild instead.

Examples:
  keyfold backfill --dry-run
  keyfold backfill --from 2026-01-01T00:00:00Z --rate 500/s`
}

// Check judges the filters and the addresses of the servers.
func (c *BackfillCmd) Check(a *app.App) error {
	_, kind := c.Type.Type()
	if kind != nil {
		kind = fmt.Errorf("--type: %w", kind)
	}
	fault := errors.Join(kind, cli.CheckSpan(c.From, c.Until, "--from", "--until"), a.CheckDatabase())
	if c.DryRun {
		return fault
	}
	return errors.Join(fault, a.CheckBroker())
}

func (c *BackfillCmd) filter() outbox.Filter {
	kind, _ := c.Type.Type() // judged by [BackfillCmd.Check]
	f := outbox.Filter{UserID: int32(c.User), Type: kind, Sent: outbox.OnlyUnsent}
	if !c.From.IsZero() {
		f.From = engine.MillisOf(c.From.Time)
	}
	if !c.Until.IsZero() {
		f.Until = engine.MillisOf(c.Until.Time)
	}
	return f
}

// Run publishes at the rate until nothing is left.
func (c *BackfillCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		filter := c.filter()
		total, err := db.Count(a.Ctx, filter)
		switch {
		case err != nil:
			return err
		case total == 0:
			return c.none(a, db)
		case c.DryRun:
			return c.print(a, 0, total)
		}
		// The relay below would wait for a broker that is away. A command reports it.
		if err := c.checkBroker(a); err != nil {
			return err
		}
		p := publishingOf(a, db, a.Identity("tool"), "backfill", toBroker{backfill: true}, outbox.RelayConfig{Rate: float64(c.Rate)})
		return errors.Join(c.drain(a, db, p.relay, total), a.ClosePublisher(p.close))
	})
}

func (c *BackfillCmd) checkBroker(a *app.App) error {
	if a.Queues.Streams > 0 {
		_, err := stream.Find(a.Ctx, a.StreamsClient(), rabbit.DefaultNames())
		return err
	}
	_, err := a.CheckQueues()
	return err
}

func (c *BackfillCmd) drain(a *app.App, db *outbox.Database, relay *outbox.Relay, total int64) error {
	var done atomic.Int64
	bar := a.Progress("backfilling", total, done.Load)
	sent, err := relay.Drain(a.Ctx, c.filter(), func(n int64) {
		done.Store(n)
		bar.At(int(n))
	})
	bar.Done()
	if err != nil {
		return fmt.Errorf("%w (%s of %s were sent and marked; the same command goes on)", err, cli.Number(sent), cli.Count(total, "row"))
	}
	// Another backfill or relay may have sent some of them, and new ones may have come.
	left, err := db.Count(a.Ctx, c.filter())
	if err != nil {
		return fmt.Errorf("%s sent and marked; how many are left is not known: %w", cli.Count(sent, "row"), err)
	}
	return c.print(a, sent, left)
}

// none says why there is nothing to publish.
func (c *BackfillCmd) none(a *app.App, db *outbox.Database) error {
	unsent, err := db.Count(a.Ctx, outbox.Filter{Sent: outbox.OnlyUnsent})
	if err != nil {
		return err
	}
	why := "no row of the outbox is unsent"
	if filters := c.filters(); unsent > 0 && len(filters) > 0 {
		why = fmt.Sprintf("0 of %s %s", cli.Count(unsent, "unsent row"), strings.Join(filters, " and "))
	}
	return a.Emit(map[string]any{"sent": 0, "left": 0, "unsent": unsent, "dry_run": c.DryRun}, func(w *cli.Text) {
		w.Line("0 rows published: %s", why)
	})
}

// filters says which rows the flags pick.
func (c *BackfillCmd) filters() (all []string) {
	if c.User != 0 {
		all = append(all, fmt.Sprintf("are of user %d", c.User))
	}
	if c.Type != "" {
		all = append(all, "are of the type "+string(c.Type))
	}
	if !c.From.IsZero() {
		all = append(all, "occurred since "+cli.At(c.From.Time))
	}
	if !c.Until.IsZero() {
		all = append(all, "occurred before "+cli.At(c.Until.Time))
	}
	return all
}

func (c *BackfillCmd) print(a *app.App, sent, left int64) error {
	return a.Emit(map[string]any{"sent": sent, "left": left, "dry_run": c.DryRun}, func(w *cli.Text) {
		if c.DryRun {
			w.Line("%s would be published", cli.Count(left, "row"))
			return
		}
		w.Line("%s published", cli.Count(sent, "row"))
		if left > 0 {
			w.Line("%s are unsent: set aside (see keyfold failed list), held back behind a row that was refused, or new", cli.Number(left))
		}
	})
}
