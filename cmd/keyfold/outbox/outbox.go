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
	Cleanup cleanupCmd `cmd:"" help:"Delete events that were published long ago."`
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

// cleanupCmd deletes.
type cleanupCmd struct {
	OlderThan cli.Span `name:"older-than" default:"168h" help:"Minimum time since the event was published: 168h, 7d."`
	Chunk     int      `default:"1000" help:"Rows per transaction."`
}

// Help is the long text.
func (c *cleanupCmd) Help() string {
	return `What was never published stays, whatever its age. What is deleted is gone from the history:
backfill and user rebuild no longer see it. Its id is kept: the same event is still a duplicate.`
}

func (c *cleanupCmd) Check(a *app.App) error {
	var fault error
	if c.OlderThan <= 0 || c.Chunk < 1 {
		fault = errors.New("--older-than and --chunk must be above 0, such as 168h and 1000")
	}
	return errors.Join(fault, a.CheckDatabase())
}

// Run deletes in chunks.
func (c *cleanupCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		bar := a.Progress("deleting", 0, nil)
		before := engine.MillisOf(time.Now().Add(-time.Duration(c.OlderThan)))
		n, err := db.Cleanup(a.Ctx, before, outbox.CleanupOptions{Chunk: c.Chunk, Progress: func(n int64) { bar.At(int(n)) }})
		bar.Done()
		if err != nil {
			return fmt.Errorf("%w (%d were deleted; run it again for the rest)", err, n)
		}
		return a.Emit(map[string]int64{"deleted": n}, func(w *cli.Text) { w.Line("%s deleted", cli.Number(n)) })
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
				w.Line("%d  %s  user %d  %s  %d attempts  %s", r.ID, r.FailedAt.Time().Format(time.DateTime), r.UserID, r.EventType, r.Attempts, r.Error)
			}); err != nil {
				return err
			}
		}
		if len(rows) == 0 && !a.JSON {
			fmt.Fprintln(a.Stdout, "none")
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

// Run gives the rows back.
func (c *failedRetryCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		n, err := db.RetryFailed(a.Ctx, c.IDs...)
		if err != nil {
			return err
		}
		return a.Emit(map[string]int64{"given_back": n}, func(w *cli.Text) {
			w.Line("%s given back to the relay", cli.Number(n))
		})
	})
}
