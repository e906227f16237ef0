package failures

import (
	"errors"
	"fmt"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/source/outbox"
)

// removeCmd deletes failures.
type removeCmd[S Source] struct {
	chosen[S]        `embed:""`
	cli.Confirmation `embed:""`
}

// Help is the long text.
func (c *removeCmd[S]) Help() string {
	t := c.Source.Texts()
	text, examples := "", ""
	if t.Several {
		text = "\nThe id of a row stays known: the same event is a duplicate when it comes again."
		examples = fmt.Sprintf("  %[1]s remove row-4711\n", t.Command)
	}
	return fmt.Sprintf(`There is no way back. %[1]s list with the same filters shows which failures would go.%[4]s

Examples:
%[5]s  %[1]s remove 3f9a
  %[1]s remove --user %[2]s --dry-run
  %[1]s remove --type %[3]s --failed-before 30d --yes`, t.Command, t.User, t.Type, text, examples)
}

func (c *removeCmd[S]) Check(a *app.App) error {
	return errors.Join(a.CheckConfirm(c.Confirmation), c.chosen.Check(a))
}

// Run deletes rows, then letters, and asks for each place.
func (c *removeCmd[S]) Run(a *app.App) error {
	return each(a, c.Source.Where(c.ID),
		func(db *outbox.Database) error { return c.removeRows(a, db) }, func() error { return c.removeLetters(a) })
}

func (c *removeCmd[S]) removeRows(a *app.App, db *outbox.Database) error {
	selected := c.selection()
	rows, err := selected.rows(a, db)
	if err != nil {
		return err
	}
	n := int64(len(rows))
	if !c.DryRun && n > 0 {
		if err := a.Confirm(c.Confirmation, fmt.Sprintf("Remove %s that could not be published? There is no way back.", cli.Count(n, "row"))); err != nil {
			return err
		}
		if n, err = db.RemoveFailed(a.Ctx, rowIDs(rows)...); err != nil {
			return err
		}
	}
	return a.Emit(map[string]any{"removed_rows": n, "dry_run": c.DryRun}, func(w *cli.Text) {
		w.Line("%s", removedLine(n, "row", "deleted", c.DryRun))
	})
}

// removeLetters counts the letters first where it has to say or to ask how many. No letter
// is held while a question waits.
func (c *removeCmd[S]) removeLetters(a *app.App) error {
	selected := c.selection()
	if !c.Yes || c.DryRun {
		r := &removing{letterPass: letterPass{Selection: selected, dryRun: true, read: watching(a, "reading dead letters")}}
		if err := r.run(a); err != nil {
			return err
		}
		if c.DryRun || r.Removed == 0 {
			return c.print(a, r.Removed)
		}
		if err := a.Confirm(c.Confirmation, fmt.Sprintf("Remove %s? There is no way back.", cli.Count(r.Removed, "dead letter"))); err != nil {
			return err
		}
		selected.Limit = uint(r.Removed) // those that came since were not asked for
	}
	r := &removing{letterPass: letterPass{Selection: selected, read: watching(a, "removing")}}
	err := r.run(a)
	return errors.Join(err, c.print(a, r.Removed))
}

func (c *removeCmd[S]) print(a *app.App, n int64) error {
	return a.Emit(map[string]any{"discarded": n, "dry_run": c.DryRun}, func(w *cli.Text) { w.Line("%s", removedLine(n, "dead letter", "discarded", c.DryRun)) })
}

// removedLine says how many went, or would go.
func removedLine(n int64, noun, done string, dryRun bool) string {
	return cli.Count(n, noun) + " " + cli.Confirmation{DryRun: dryRun}.Done(done)
}
