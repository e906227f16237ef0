package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/source/outbox"
)

// cleanupCmd frees.
type cleanupCmd struct {
	OlderThan cli.Span `name:"older-than" default:"168h" help:"Minimum time since the event was published: 168h, 7d."`
	inChunks  `embed:""`
}

// Help is the long text.
func (c *cleanupCmd) Help() string {
	return `Frees what publishing needed, the message bodies and headers, of events that were published long ago.
The rows stay as history: keyfold user rebuild makes profiles of them, and the same event is still a duplicate.
What was never published stays whole, whatever its age. keyfold history prune deletes history.

Examples:
  keyfold outbox cleanup --older-than 30d --dry-run
  keyfold outbox cleanup --older-than 30d --yes`
}

func (c *cleanupCmd) Check(a *app.App) error { return c.check(a, c.OlderThan, "168h") }

// Run counts where it has to say or to ask how many, and frees in chunks.
func (c *cleanupCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		before := time.Now().Add(-time.Duration(c.OlderThan))
		if !c.Yes || c.DryRun {
			n, err := c.pass(a, db.Cleanup, before, "counting", true)
			if err != nil {
				return err
			}
			if c.DryRun || n == 0 {
				return c.print(a, n, before)
			}
			if err := a.Confirm(c.Confirmation, cleanupQuestion(n, before)); err != nil {
				return err
			}
		}
		n, err := c.pass(a, db.Cleanup, before, "freeing", false)
		if err != nil {
			return fmt.Errorf("%w (%s freed; run it again for the rest)", err, cli.Count(n, "row"))
		}
		return c.print(a, n, before)
	})
}

func cleanupQuestion(n int64, before time.Time) string {
	return fmt.Sprintf("Free the bodies of %s published before %s? The rows stay as history.", cli.Count(n, "row"), cli.At(before))
}

func (c *cleanupCmd) print(a *app.App, n int64, before time.Time) error {
	return c.inChunks.print(a, n, "freed", "published", before)
}

// inChunks are the flags of a command that takes rows away, or parts of them, that are old.
type inChunks struct {
	Chunk            int `default:"1000" help:"Rows per transaction."`
	cli.Confirmation `embed:""`
}

func (c *inChunks) check(a *app.App, olderThan cli.Span, example string) error {
	var faults engine.Faults
	faults.If(olderThan <= 0 || c.Chunk < 1, "--older-than and --chunk must be above 0, such as %s and 1000", example)
	return errors.Join(a.CheckConfirm(c.Confirmation), faults.Err(), a.CheckDatabase())
}

// pass calls do with all rows before an instant.
func (c *inChunks) pass(a *app.App, do deletion, before time.Time, what string, dryRun bool) (int64, error) {
	bar := a.Progress(what, 0, nil)
	defer bar.Done()
	return do(a.Ctx, engine.MillisOf(before), outbox.CleanupOptions{
		Chunk: c.Chunk, DryRun: dryRun, Progress: func(n int64) { bar.At(int(n)) },
	})
}

// deletion is [outbox.Database.Cleanup] or [outbox.Database.Prune].
type deletion func(context.Context, engine.Millis, outbox.CleanupOptions) (int64, error)

// print says what was done to rows, and what happened to their events before an instant.
func (c *inChunks) print(a *app.App, n int64, done, event string, before time.Time) error {
	report := map[string]any{done: n, event + "_before": cli.At(before), "dry_run": c.DryRun}
	return a.Emit(report, func(w *cli.Text) {
		w.Line("%s %s, %s before %s", cli.Count(n, "row"), c.Done(done), event, cli.At(before))
	})
}
