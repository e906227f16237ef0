package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"keyfold/cmd/terminal"
	"keyfold/engine"
	"keyfold/source/outbox"
)

// outboxCmd looks after what is stored.
type outboxCmd struct {
	Stats   outboxStatsCmd   `cmd:"" help:"Count unsent, failed and sent events."`
	Cleanup outboxCleanupCmd `cmd:"" help:"Delete events that were published long ago."`
	Failed  outboxFailedCmd  `cmd:"" help:"List and retry events that could not be published."`
}

// outboxStatsCmd counts.
type outboxStatsCmd struct{}

func (c *outboxStatsCmd) check(a *app) error { return a.checkDatabase() }

// Run prints the counts.
func (c *outboxStatsCmd) Run(a *app) error {
	return a.withDatabase(func(db *outbox.Database) error {
		backlog, err := db.Backlog(a.ctx)
		if err != nil {
			return err
		}
		sent, err := db.Count(a.ctx, outbox.Filter{Sent: outbox.OnlySent})
		if err != nil {
			return err
		}
		age := backlog.Age(engine.Now())
		report := map[string]any{
			"unsent": backlog.Unsent, "oldest_unsent_seconds": age.Seconds(), "failed": backlog.Failed, "backfill": backlog.Backfill, "sent": sent,
		}
		return a.emit(report, func(w *terminal.Text) {
			oldest := ""
			if backlog.Unsent > 0 {
				oldest = fmt.Sprintf(", the oldest for %s", age.Round(time.Second))
			}
			w.Line("unsent  %s%s", terminal.Number(backlog.Unsent), oldest)
			w.Line("failed  %s", terminal.Number(backlog.Failed))
			if backlog.Backfill > 0 {
				w.Line("for keyfold backfill  %s", terminal.Number(backlog.Backfill))
			}
			w.Line("sent    %s", terminal.Number(sent))
		})
	})
}

// outboxCleanupCmd deletes.
type outboxCleanupCmd struct {
	OlderThan span `name:"older-than" default:"168h" help:"Minimum time since the event was published: 168h, 7d."`
	Chunk     int  `default:"1000" help:"Rows per transaction."`
}

// Help is the long text.
func (c *outboxCleanupCmd) Help() string {
	return `What was never published stays, whatever its age. What is deleted is gone from the history:
backfill and user rebuild no longer see it. Its id is kept: the same event is still a duplicate.`
}

func (c *outboxCleanupCmd) check(a *app) error {
	var fault error
	if c.OlderThan <= 0 || c.Chunk < 1 {
		fault = errors.New("--older-than and --chunk must be above 0, such as 168h and 1000")
	}
	return errors.Join(fault, a.checkDatabase())
}

// Run deletes in chunks.
func (c *outboxCleanupCmd) Run(a *app) error {
	return a.withDatabase(func(db *outbox.Database) error {
		bar := a.progress("deleting", 0, nil)
		before := engine.MillisOf(time.Now().Add(-time.Duration(c.OlderThan)))
		n, err := db.Cleanup(a.ctx, before, outbox.CleanupOptions{Chunk: c.Chunk, Progress: func(n int64) { bar.At(int(n)) }})
		bar.Done()
		if err != nil {
			return fmt.Errorf("%w (%d were deleted; run it again for the rest)", err, n)
		}
		return a.emit(map[string]int64{"deleted": n}, func(w *terminal.Text) { w.Line("%s deleted", terminal.Number(n)) })
	})
}

type outboxFailedCmd struct {
	List  outboxFailedListCmd  `cmd:"" help:"List failed events with the reason."`
	Retry outboxFailedRetryCmd `cmd:"" help:"Let the relay publish failed events again."`
}

// outboxFailedListCmd lists.
type outboxFailedListCmd struct {
	Limit int `default:"100" help:"Rows at most."`
}

func (c *outboxFailedListCmd) check(a *app) error {
	var fault error
	if c.Limit < 1 {
		fault = errors.New("--limit must be above 0")
	}
	return errors.Join(fault, a.checkDatabase())
}

// Run prints one row a line.
func (c *outboxFailedListCmd) Run(a *app) error {
	return a.withDatabase(func(db *outbox.Database) error {
		rows, err := db.Failed(a.ctx, 0, c.Limit)
		if err != nil {
			return err
		}
		w := &terminal.Text{W: a.stdout}
		encode := json.NewEncoder(a.stdout)
		for i := range rows {
			r := &rows[i]
			if a.json {
				if err := encode.Encode(r); err != nil {
					return err
				}
				continue
			}
			w.Line("%d  %s  user %d  %s  %d attempts  %s", r.ID, r.FailedAt.Time().Format(time.DateTime), r.UserID, r.EventType, r.Attempts, r.Error)
		}
		if len(rows) == 0 && !a.json {
			w.Line("none")
		}
		return w.Err
	})
}

// outboxFailedRetryCmd gives back.
type outboxFailedRetryCmd struct {
	IDs []int64 `arg:"" optional:"" name:"id" help:"Row ids; all if omitted."`
}

func (c *outboxFailedRetryCmd) check(a *app) error {
	var fault error
	if slices.ContainsFunc(c.IDs, func(id int64) bool { return id < 1 }) {
		fault = errors.New("ids are above 0: `keyfold outbox failed list` shows them")
	}
	return errors.Join(fault, a.checkDatabase())
}

// Run gives the rows back.
func (c *outboxFailedRetryCmd) Run(a *app) error {
	return a.withDatabase(func(db *outbox.Database) error {
		n, err := db.RetryFailed(a.ctx, c.IDs...)
		if err != nil {
			return err
		}
		return a.emit(map[string]int64{"given_back": n}, func(w *terminal.Text) {
			w.Line("%s given back to the relay", terminal.Number(n))
		})
	})
}
