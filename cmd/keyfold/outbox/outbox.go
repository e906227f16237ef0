// Package outbox has the commands about the SQL outbox: what stores events in it,
// what publishes them, and what looks after them.
package outbox

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/source/outbox"
)

// Cmd looks after what is stored.
type Cmd struct {
	Stats   statsCmd   `cmd:"" help:"Count unsent, failed and sent events."`
	Cleanup cleanupCmd `cmd:"" help:"Free the bodies of events that were published long ago."`
	Failed  failedCmd  `cmd:"" help:"List and retry events that could not be published."`
}

// statsCmd counts.
type statsCmd struct{}

func (c *statsCmd) Check(a *app.App) error { return a.CheckDatabase() }

// Run prints the counts.
func (c *statsCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		backlog, err := db.Backlog(a.Ctx)
		if err != nil {
			return err
		}
		sent, err := db.Count(a.Ctx, outbox.Filter{Sent: outbox.OnlySent})
		if err != nil {
			return err
		}
		age := backlog.Age(engine.Now())
		report := map[string]any{
			"unsent": backlog.Unsent, "oldest_unsent_seconds": age.Seconds(), "failed": backlog.Failed, "backfill": backlog.Backfill, "sent": sent,
		}
		return a.Emit(report, func(w *cli.Text) {
			oldest := ""
			if backlog.Unsent > 0 {
				oldest = fmt.Sprintf(", the oldest for %s", age.Round(time.Second))
			}
			w.Line("unsent  %s%s", cli.Number(backlog.Unsent), oldest)
			w.Line("failed  %s", cli.Number(backlog.Failed))
			if backlog.Backfill > 0 {
				w.Line("for keyfold backfill  %s", cli.Number(backlog.Backfill))
			}
			w.Line("sent    %s", cli.Number(sent))
		})
	})
}

type failedCmd struct {
	List  failedListCmd  `cmd:"" help:"List failed events with the reason."`
	Retry failedRetryCmd `cmd:"" help:"Let the relay publish failed events again."`
}

// failedListCmd lists.
type failedListCmd struct {
	Limit int `default:"100" help:"Rows at most."`
}

func (c *failedListCmd) Check(a *app.App) error {
	var fault error
	if c.Limit < 1 {
		fault = errors.New("--limit must be above 0")
	}
	return errors.Join(fault, a.CheckDatabase())
}

// Run prints one row a line.
func (c *failedListCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		rows, err := db.Failed(a.Ctx, 0, c.Limit)
		if err != nil {
			return err
		}
		for i := range rows {
			r := &rows[i]
			if err := a.Emit(r, func(w *cli.Text) {
				w.Line("%d  %s  user %d  %s  %s  %s", r.ID, cli.At(r.FailedAt.Time()), r.UserID, r.EventType, cli.Count(int64(r.Attempts), "attempt"), r.Error)
			}); err != nil {
				return err
			}
		}
		if len(rows) == 0 && !a.JSON {
			fmt.Fprintln(a.Stdout, "there is no failed row")
		}
		return nil
	})
}

// failedRetryCmd gives back.
type failedRetryCmd struct {
	IDs []int64 `arg:"" optional:"" name:"id" help:"Row ids; all if omitted."`
}

func (c *failedRetryCmd) Check(a *app.App) error {
	var fault error
	if slices.ContainsFunc(c.IDs, func(id int64) bool { return id < 1 }) {
		fault = errors.New("ids are above 0: `keyfold outbox failed list` shows them")
	}
	return errors.Join(fault, a.CheckDatabase())
}

// Run gives the rows back. Those that are not there are told, after the others.
func (c *failedRetryCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		given, missing, err := c.retry(a, db)
		if err != nil {
			return err
		}
		return errors.Join(a.Emit(map[string]int64{"given_back": given}, func(w *cli.Text) {
			why := ""
			if given == 0 && len(c.IDs) == 0 {
				why = ": no row is set aside"
			}
			w.Line("%s given back to the relay%s", cli.Count(given, "row"), why)
		}), missing)
	})
}

func (c *failedRetryCmd) retry(a *app.App, db *outbox.Database) (given int64, missing, err error) {
	if len(c.IDs) == 0 {
		given, err = db.RetryFailed(a.Ctx)
		return given, nil, err
	}
	slices.Sort(c.IDs)
	for _, id := range slices.Compact(c.IDs) {
		n, err := db.RetryFailed(a.Ctx, id)
		if err != nil {
			return given, missing, err
		}
		if n == 0 {
			missing = errors.Join(missing, fmt.Errorf("there is no failed row %d: `keyfold outbox failed list` shows those there are", id))
		}
		given += n
	}
	return given, missing, nil
}
