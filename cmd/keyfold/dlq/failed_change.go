package dlq

import (
	"errors"
	"fmt"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/source/outbox"
	"keyfold/source/rabbit/deadletter"
)

// picked is one failure by its id, or those that match the filters.
type picked struct {
	ID     string `arg:"" optional:"" help:"row-NUMBER of a row; of a letter the event's id, or the start of it. If omitted, all that match the filters."`
	places `embed:""`
	Limit  uint `default:"0" help:"Failures of each place at most; 0: all."`
}

// where narrows the places to the one that the id is of.
func (c *picked) where() *places {
	p := c.places
	switch {
	case isRow(c.ID):
		p.In = inSQL
	case c.ID != "":
		p.In = inBroker
	}
	return &p
}

func (c *picked) rows(a *app.App, db *outbox.Database) (found []*deadletter.Letter, err error) {
	for l, err := range limited(c.only(rowsOf(a, db, c.ID)), c.Limit) {
		if err != nil {
			return nil, err
		}
		found = append(found, l)
	}
	if c.ID != "" && len(found) == 0 {
		return nil, fmt.Errorf("there is no failed %s: `keyfold failed list` shows those there are", c.ID)
	}
	return found, nil
}

// retryCmd gives failures another try.
type retryCmd struct {
	picked   `embed:""`
	replayed `embed:""`
	Rate     cli.Rate `placeholder:"N/s" help:"Letters a second at most; default: no limit."`
	DryRun   bool     `help:"Show what would be retried and change nothing."`
}

// Help is the long text.
func (c *retryCmd) Help() string {
	return `A row goes back to the relay. A letter is replayed as by keyfold dlq replay, which see.

Examples:
  keyfold failed retry row-4711
  keyfold failed retry --in sql
  keyfold failed retry --error timeout --failed-after 2h --dry-run`
}

func (c *retryCmd) Check(a *app.App) error { return c.where().check(a) }

// Run gives rows back to the relay, then replays letters.
func (c *retryCmd) Run(a *app.App) error {
	return c.where().each(a, func(db *outbox.Database) error {
		rows, err := c.rows(a, db)
		if err != nil {
			return err
		}
		given := int64(len(rows))
		if !c.DryRun && given > 0 {
			if given, err = db.RetryFailed(a.Ctx, rowIDs(rows)...); err != nil {
				return err
			}
		}
		return a.Emit(map[string]any{"given_back": given, "dry_run": c.DryRun}, func(w *cli.Text) {
			verb := "given back to the relay"
			if c.DryRun {
				verb = "would be " + verb
			}
			w.Line("%s %s", cli.Count(given, "row"), verb)
		})
	}, func(*deadletter.Scan) error {
		// The replay opens its own scan, behind the publisher that it needs.
		replay := replayCmd[replayed]{Source: c.replayed, ID: c.ID, letterFilter: c.letterFilter, Limit: c.Limit, DryRun: c.DryRun, Rate: c.Rate}
		return replay.Run(a)
	})
}

// removeCmd deletes failures.
type removeCmd struct {
	picked           `embed:""`
	cli.Confirmation `embed:""`
}

// Help is the long text.
func (c *removeCmd) Help() string {
	return `There is no way back. keyfold failed list with the same filters shows which failures would go. The id of a
row stays known: the same event is a duplicate when it comes again.

Examples:
  keyfold failed remove row-4711
  keyfold failed remove --user 17 --dry-run
  keyfold failed remove --in broker --failed-before 30d --yes`
}

func (c *removeCmd) Check(a *app.App) error {
	return errors.Join(a.CheckConfirm(c.Confirmation), c.where().check(a))
}

// Run deletes rows, then letters, and asks for each place.
func (c *removeCmd) Run(a *app.App) error {
	return c.where().each(a, func(db *outbox.Database) error {
		rows, err := c.rows(a, db)
		if err != nil {
			return err
		}
		n := int64(len(rows))
		if !c.DryRun && n > 0 {
			if err := a.Confirm(c.Confirmation, fmt.Sprintf("Delete %s that could not be published? There is no way back.", cli.Count(n, "row"))); err != nil {
				return err
			}
			if n, err = db.RemoveFailed(a.Ctx, rowIDs(rows)...); err != nil {
				return err
			}
		}
		return a.Emit(map[string]any{"removed_rows": n, "dry_run": c.DryRun}, func(w *cli.Text) {
			w.Line("%s %s", cli.Count(n, "row"), c.Done("deleted"))
		})
	}, func(*deadletter.Scan) error {
		discard := discardCmd[events]{ID: c.ID, letterFilter: c.letterFilter, Limit: c.Limit, Confirmation: c.Confirmation}
		return discard.Run(a)
	})
}
