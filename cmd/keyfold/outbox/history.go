package outbox

import (
	"fmt"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/source/outbox"
)

// HistoryCmd looks after the history: the rows of sent events and their ids.
type HistoryCmd struct {
	Stats historyStatsCmd `cmd:"" help:"Count the history and show how far it reaches back."`
	Prune pruneCmd        `cmd:"" help:"Delete the history before an instant, with its ids."`
}

type historyStatsCmd struct{}

func (c *historyStatsCmd) Check(a *app.App) error { return a.CheckDatabase() }

// Run prints the counts.
func (c *historyStatsCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		h, err := db.HistoryStats(a.Ctx)
		if err != nil {
			return err
		}
		report := map[string]any{
			"rows": h.Rows, "with_body": h.Bodies, "ids": h.IDs,
			"oldest": instant(h.Oldest), "newest": instant(h.Newest), "floor": instant(h.Floor),
		}
		return a.Emit(report, func(w *cli.Text) {
			w.Line("rows    %s, of which %s sent with a body (keyfold outbox cleanup frees it)", cli.Number(h.Rows), cli.Number(h.Bodies))
			w.Line("ids     %s", cli.Number(h.IDs))
			if h.Oldest != 0 {
				w.Line("oldest  %s", cli.At(h.Oldest.Time()))
				w.Line("newest  %s", cli.At(h.Newest.Time()))
			}
			if h.Floor != 0 {
				w.Line("floor   %s: an event that occurred before it is refused", cli.At(h.Floor.Time()))
			}
		})
	})
}

// instant is a time in a report; nil where there is none.
func instant(at engine.Millis) any {
	if at == 0 {
		return nil
	}
	return cli.At(at.Time())
}

// pruneCmd deletes history.
type pruneCmd struct {
	OlderThan cli.Span `name:"older-than" required:"" placeholder:"SPAN" help:"Minimum time since the event occurred: 8760h, 400d."`
	inChunks  `embed:""`
}

// Help is the long text.
func (c *pruneCmd) Help() string {
	return `Deletes the rows of events that occurred and were sent long ago, and their ids. What that makes impossible:
an event that occurred before then is refused from now on, by ingest and by the relay (before_history), since
keyfold can no longer tell whether it is a repeated one; and keyfold user rebuild can no longer make the profile
of a user whose events are deleted. Events that were never published stay, whatever their age.

Examples:
  keyfold history prune --older-than 400d --dry-run
  keyfold history prune --older-than 400d --yes`
}

func (c *pruneCmd) Check(a *app.App) error { return c.check(a, c.OlderThan, "400d") }

// Run counts, says what becomes impossible, asks, and deletes in chunks.
func (c *pruneCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		before := time.Now().Add(-time.Duration(c.OlderThan))
		n, err := c.pass(a, db.Prune, before, "counting", true)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Stderr, pruneWarning(n, before))
		if c.DryRun {
			return c.print(a, n, before)
		}
		if err := a.Confirm(c.Confirmation, fmt.Sprintf("Delete %s?", cli.Count(n, "row"))); err != nil {
			return err
		}
		n, err = c.pass(a, db.Prune, before, "deleting", false)
		if err != nil {
			return fmt.Errorf("%w (%s deleted; run it again for the rest)", err, cli.Count(n, "row"))
		}
		return c.print(a, n, before)
	})
}

func pruneWarning(n int64, before time.Time) string {
	return fmt.Sprintf("A prune deletes %s of events that occurred before %s, with their ids. There is no way back: events that occurred "+
		"before then are refused from then on, and keyfold user rebuild cannot make the profiles of these users anew.",
		cli.Count(n, "row"), cli.At(before))
}

func (c *pruneCmd) print(a *app.App, n int64, before time.Time) error {
	return c.inChunks.print(a, n, "deleted", "occurred", before)
}
