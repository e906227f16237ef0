package failures

import (
	"errors"
	"fmt"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/source/outbox"
)

// retryCmd gives failures another try.
type retryCmd[R Replay] struct {
	chosen[R] `embed:""`
	DryRun    bool     `help:"Show what would be retried and change nothing."`
	Rate      cli.Rate `placeholder:"N/s" help:"Letters a second at most; default: no limit."`
}

// Help is the long text.
func (c *retryCmd[R]) Help() string {
	t := c.Source.Texts()
	text, examples := "", ""
	if t.Several {
		text = "A row goes back to the relay. "
		examples = fmt.Sprintf("  %[1]s retry row-4711\n  %[1]s retry --in sql\n", t.Command)
	}
	return fmt.Sprintf(`%[4]sA dead letter is removed once the broker has confirmed its event, so a run that is killed loses
nothing; %[3]s. Events that a worker would refuse again
(malformed ones) are skipped unless named by --error or an id. Exit code 1 when a letter failed.

Examples:
%[5]s  %[1]s retry --error timeout --failed-after 2h --dry-run
  %[1]s retry --type %[2]s --rate 100/s
  %[1]s retry 3f9a`, t.Command, t.Type, t.Twice, text, examples)
}

// Run gives rows back to the relay, then publishes letters again, and prints how many.
func (c *retryCmd[R]) Run(a *app.App) error {
	return each(a, c.Source.Where(c.ID), func(db *outbox.Database) error { return c.giveBack(a, db) }, func() error {
		r := &replay{
			letterPass: letterPass{Selection: c.selection(), dryRun: c.DryRun, read: watching(a, "retrying")},
			source:     c.Source, explicit: c.ID != "" || c.Error != "", rate: c.Rate,
		}
		err := r.run(a)
		return errors.Join(err, r.print(a))
	})
}

func (c *retryCmd[R]) giveBack(a *app.App, db *outbox.Database) error {
	selected := c.selection()
	rows, err := selected.rows(a, db)
	if err != nil {
		return err
	}
	given := int64(len(rows))
	if !c.DryRun && given > 0 {
		if given, err = db.RetryFailed(a.Ctx, rowIDs(rows)...); err != nil {
			return err
		}
	}
	return a.Emit(map[string]any{"given_back": given, "dry_run": c.DryRun}, func(w *cli.Text) { w.Line("%s", givenLine(given, c.DryRun)) })
}

// givenLine says how many rows go back to the relay.
func givenLine(rows int64, dryRun bool) string {
	verb := "given back to the relay"
	if dryRun {
		verb = "would be " + verb
	}
	return cli.Count(rows, "row") + " " + verb
}
