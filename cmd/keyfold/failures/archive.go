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
	r := &archiving{letterPass: letterPass{
		Selection: Selection{Source: events{}, Matches: c.filter().Matches, Limit: c.Limit}, dryRun: c.DryRun, read: watching(a, "archiving"),
	}}
	err := r.run(a)
	report := map[string]any{"archived": r.Archived, "archived_before": r.Known, "not_text": r.Unfit, "dry_run": c.DryRun}
	return errors.Join(err, a.Emit(report, func(w *cli.Text) { w.Line("%s", strings.Join(r.lines(), "\n  ")) }))
}

// archiving is one run over the selected letters.
type archiving struct {
	letterPass

	Archived int64
	Known    int64 // archived before, by a run that was killed
	Unfit    int64 // no text
}

func (r *archiving) run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		return scan(a, r.Source, func(s *deadletter.Scan) error { return r.pass(a, db, s) })
	})
}

func (r *archiving) pass(a *app.App, db *outbox.Database, s *deadletter.Scan) error {
	var batch []*deadletter.Letter
	for l, err := range r.over(s) {
		if err != nil {
			return err
		}
		if !utf8.Valid(l.Body) || strings.Contains(string(l.Body), "\x00") {
			r.Unfit++
			r.stays(l)
			continue
		}
		if batch = append(batch, l); len(batch) < archiveBatch {
			continue
		}
		if err := r.move(a, db, s, batch); err != nil {
			return err
		}
		batch = batch[:0]
	}
	return r.move(a, db, s, batch)
}

// move stores a batch and takes it off the queue.
func (r *archiving) move(a *app.App, db *outbox.Database, s *deadletter.Scan, batch []*deadletter.Letter) error {
	if len(batch) == 0 {
		return nil
	}
	if r.dryRun {
		r.Archived += int64(len(batch))
	} else if err := r.store(a, db, s, batch); err != nil {
		return err
	}
	for _, l := range batch {
		r.took(l)
	}
	return nil
}

func (r *archiving) store(a *app.App, db *outbox.Database, s *deadletter.Scan, batch []*deadletter.Letter) error {
	rows := make([]outbox.ArchivedLetter, len(batch))
	for i, l := range batch {
		rows[i] = archived(l)
	}
	stored, err := db.Archive(a.Ctx, rows)
	if err != nil {
		return err
	}
	r.Archived, r.Known = r.Archived+stored, r.Known+int64(len(batch))-stored
	return s.Remove(batch...)
}

// lines say what became of the letters.
func (r *archiving) lines() []string {
	what := "archived"
	if r.dryRun {
		what = "would be archived"
	}
	all := []string{cli.Count(r.Archived, "dead letter") + " " + what}
	if r.Known > 0 {
		all = append(all, fmt.Sprintf("%d were archived before and are off the queue now", r.Known))
	}
	if r.Unfit > 0 {
		all = append(all, fmt.Sprintf("%d are no text and stay in the broker", r.Unfit))
	}
	return all
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
