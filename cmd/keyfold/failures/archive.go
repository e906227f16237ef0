package failures

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/service/profile/users"
	"keyfold/source/outbox"
	"keyfold/source/rabbit/deadletter"
)

// archiveCmd moves letters into SQL.
type archiveCmd struct {
	letterFilter `embed:""`
	Limit        uint `default:"0" help:"Letters at most; 0: all."`
	DryRun       bool `help:"Count the letters and move none."`

	Archived int64 `kong:"-"`
	Known    int64 `kong:"-"` // archived before, by a run that was killed
	Unfit    int64 `kong:"-"` // no text
}

// Help is the long text.
func (c *archiveCmd) Help() string {
	return `For teams that query failures in SQL. A letter is stored in the table keyfold_failed of DATABASE_URL, and that is
committed, before it is taken off the broker's queue: a run that is killed loses nothing and stores nothing twice.
An archived letter can no longer be retried by keyfold; its body has the original message. keyfold user forget
deletes a user's archived letters too.

Examples:
  keyfold failed archive --failed-before 7d
  keyfold failed archive --type search --dry-run`
}

func (c *archiveCmd) Check(a *app.App) error {
	return errors.Join(c.check(a, events{}, ""), a.CheckDatabase())
}

// archiveBatch is how many letters share a transaction.
const archiveBatch = 100

// Run moves the letters in batches.
func (c *archiveCmd) Run(a *app.App) error {
	err := a.WithDatabase(func(db *outbox.Database) error {
		return scan(a, events{}, func(s *deadletter.Scan) error {
			var batch []*deadletter.Letter
			for l, err := range limited(c.only(Watched(a, s, "archiving")), c.Limit) {
				if err != nil {
					return err
				}
				if !utf8.Valid(l.Body) || strings.Contains(string(l.Body), "\x00") {
					c.Unfit++
					continue
				}
				if batch = append(batch, l); len(batch) < archiveBatch {
					continue
				}
				if err := c.move(a, db, s, batch); err != nil {
					return err
				}
				batch = batch[:0]
			}
			return c.move(a, db, s, batch)
		})
	})
	return errors.Join(err, c.print(a))
}

// move stores a batch and takes it off the queue.
func (c *archiveCmd) move(a *app.App, db *outbox.Database, s *deadletter.Scan, batch []*deadletter.Letter) error {
	if len(batch) == 0 {
		return nil
	}
	if c.DryRun {
		c.Archived += int64(len(batch))
		return nil
	}
	rows := make([]outbox.ArchivedLetter, len(batch))
	for i, l := range batch {
		rows[i] = archived(l)
	}
	stored, err := db.Archive(a.Ctx, rows)
	if err != nil {
		return err
	}
	c.Archived, c.Known = c.Archived+stored, c.Known+int64(len(batch))-stored
	return s.Remove(batch...)
}

// UserIn returns whose event the body of a letter has, also of one that a worker refuses; 0
// where no user can be read.
func UserIn(letter []byte) int32 { return users.Mentioned(deadletter.OriginalIn(letter)) }

func archived(l *deadletter.Letter) outbox.ArchivedLetter {
	row := outbox.ArchivedLetter{Queue: events{}.Queue().DeadLetters, UserID: UserIn(l.Body), Headers: map[string]string{}, Body: l.Body}
	for name, value := range l.Headers {
		row.Headers[name] = strings.ToValidUTF8(fmt.Sprint(value), "\uFFFD")
	}
	row.Headers["keyfold-id"] = strings.ToValidUTF8(l.ID, "\uFFFD")
	if !l.LastFailure.IsZero() {
		row.FailedAt = engine.MillisOf(l.LastFailure)
	}
	return row
}

func (c *archiveCmd) print(a *app.App) error {
	report := map[string]any{"archived": c.Archived, "archived_before": c.Known, "not_text": c.Unfit, "dry_run": c.DryRun}
	return a.Emit(report, func(w *cli.Text) {
		what := "archived"
		if c.DryRun {
			what = "would be archived"
		}
		w.Line("%s %s", cli.Count(c.Archived, "dead letter"), what)
		if c.Known > 0 {
			w.Line("  %d were archived before and are off the queue now", c.Known)
		}
		if c.Unfit > 0 {
			w.Line("  %d are no text and stay in the broker", c.Unfit)
		}
	})
}
