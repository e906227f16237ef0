package dlq

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// FailedCmd is one view of what failed: dead letters in the broker, and rows of the
// outbox that were set aside.
type FailedCmd struct {
	List    failedListCmd  `cmd:"" help:"List failures, of the outbox and of the broker. Read-only."`
	Show    failedShowCmd  `cmd:"" help:"Show one failure in full. Read-only."`
	Stats   failedStatsCmd `cmd:"" help:"Count failures by reason and by event type. Read-only."`
	Retry   retryCmd       `cmd:"" help:"Let the relay publish rows again, and publish the events of letters to the workers again."`
	Remove  removeCmd      `cmd:"" help:"Delete failures."`
	Archive archiveCmd     `cmd:"" help:"Move dead letters from the broker into SQL."`
}

// The places where failures are.
const (
	inBroker = "broker"
	inSQL    = "sql"
)

// places says which failures a command is about.
type places struct {
	In           string `enum:"all,broker,sql" default:"all" help:"Where to look: sql (rows that could not be published), broker (dead letters), or all."`
	letterFilter `embed:""`
}

func (p *places) check(a *app.App) error {
	fault := p.checkFlags(events{})
	if p.In != inSQL {
		fault = errors.Join(fault, a.CheckBroker())
	}
	if p.In == inSQL || a.Servers.SQL != "" {
		fault = errors.Join(fault, a.CheckDatabase())
	}
	return fault
}

// each has the rows and the letters worked on, as far as they are wanted. A place that
// cannot be reached is told after the other's.
func (p *places) each(a *app.App, rows func(*outbox.Database) error, letters func(*deadletter.Scan) error) error {
	var faults []error
	switch {
	case p.In == inBroker:
	case a.Servers.SQL == "":
		fmt.Fprintln(a.Stderr, "DATABASE_URL is not set: only the broker's dead letters are looked at")
	default:
		faults = append(faults, a.WithDatabase(rows))
	}
	if p.In != inSQL {
		faults = append(faults, scan(a, events{}, letters))
	}
	return errors.Join(faults...)
}

// rowPrefix starts the ids that failed rows are listed with.
const rowPrefix = "row-"

// reasonUnpublished is the reason of a row that was set aside by a version that stored none.
const reasonUnpublished = "not_published"

// rowsOf yields the failed rows as letters, so that they are picked and printed alike: all
// of them, or the one of an id.
func rowsOf(a *app.App, db *outbox.Database, id string) letters {
	const page = 500
	return func(yield func(*deadletter.Letter, error) bool) {
		ids, err := failedIDs(a, db, id)
		for page := range slices.Chunk(ids, page) {
			var rows []outbox.FailedRow
			if rows, err = db.Failed(a.Ctx, page...); err != nil {
				break
			}
			for i := range rows {
				if !yield(letterOf(&rows[i]), nil) {
					return
				}
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func failedIDs(a *app.App, db *outbox.Database, id string) ([]int64, error) {
	switch n, one := rowID(id); {
	case id == "":
		return db.FailedIDs(a.Ctx)
	case one:
		return []int64{n}, nil
	}
	return nil, nil
}

func letterOf(r *outbox.FailedRow) *deadletter.Letter {
	var failedAt time.Time
	if r.FailedAt != 0 {
		failedAt = r.FailedAt.Time()
	}
	return &deadletter.Letter{
		Subject: rabbit.Subject{
			ID: rowPrefix + strconv.FormatInt(r.ID, 10), User: strconv.FormatInt(r.UserID, 10), Kind: r.EventType, NumericUser: true,
		},
		Reason: cmp.Or(r.Reason, reasonUnpublished), Retries: r.Attempts, Errors: []string{r.Error},
		FirstFailure: failedAt, LastFailure: failedAt, FirstSeen: engine.Millis(0), Original: r.Body,
	}
}

func rowIDs(failed []*deadletter.Letter) []int64 {
	ids := make([]int64, len(failed))
	for i, l := range failed {
		ids[i], _ = strconv.ParseInt(strings.TrimPrefix(l.ID, rowPrefix), 10, 64) // as letterOf wrote it
	}
	return ids
}

// isRow reports whether an id is that of a row, in full.
func isRow(id string) bool {
	_, is := rowID(id)
	return is
}

func rowID(id string) (n int64, is bool) {
	n, err := strconv.ParseInt(strings.TrimPrefix(id, rowPrefix), 10, 64)
	return n, strings.HasPrefix(id, rowPrefix) && err == nil
}

// failedListCmd lists what failed.
type failedListCmd struct {
	places `embed:""`
	Limit  uint `default:"1000" help:"Failures of each place at most; 0: all."`
}

func (c *failedListCmd) Check(a *app.App) error { return c.check(a) }

// Run prints a line per failure: a table, or NDJSON with -o json.
func (c *failedListCmd) Run(a *app.App) error {
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	lines, encode := &cli.Text{W: table}, a.Encoder()
	now, shown := time.Now(), 0
	list := func(where string, all iter.Seq2[*deadletter.Letter, error]) error {
		for l, err := range limited(c.only(all), c.Limit) {
			if err != nil {
				return err
			}
			shown++
			if a.JSON {
				if err := encode.Encode(failureJSON{where, jsonOf(l)}); err != nil {
					return err
				}
				continue
			}
			if shown == 1 {
				lines.Line("WHERE\tID\tUSER\tTYPE\tREASON\tRETRIES\tFAILED AT\tAGE\tERROR")
			}
			fmt.Fprint(table, where, "\t")
			printRow(lines, l, now)
		}
		return nil
	}
	err := c.each(a,
		func(db *outbox.Database) error { return list(inSQL, rowsOf(a, db, "")) },
		func(s *deadletter.Scan) error { return list(inBroker, Watched(a, s, "reading dead letters")) })
	if shown == 0 && err == nil && !a.JSON {
		fmt.Fprintln(a.Stderr, "there is no failure that matches")
	}
	return errors.Join(err, lines.Err, table.Flush())
}

// failureJSON is a failure's line in -o json.
type failureJSON struct {
	Where string `json:"where"`
	letterJSON
}

// failedShowCmd shows one failure.
type failedShowCmd struct {
	ID string `arg:"" help:"row-NUMBER of a row; of a letter the event's id, or the start of it."`
}

func (c *failedShowCmd) places() *places {
	if isRow(c.ID) {
		return &places{In: inSQL}
	}
	return &places{In: inBroker}
}

func (c *failedShowCmd) Check(a *app.App) error { return c.places().check(a) }

// Run prints the row, or every letter of the id.
func (c *failedShowCmd) Run(a *app.App) error {
	return c.places().each(a, func(db *outbox.Database) error {
		shown := false
		for l, err := range rowsOf(a, db, c.ID) {
			if err != nil {
				return err
			}
			shown = true
			if err := printLetter(a, l); err != nil {
				return err
			}
		}
		if !shown {
			return fmt.Errorf("there is no failed %s: `keyfold failed list` shows those there are", c.ID)
		}
		return nil
	}, func(s *deadletter.Scan) error {
		found, err := named(Watched(a, s, "looking for the letter"), c.ID, events{})
		if err != nil {
			return err
		}
		for _, l := range found {
			if err := printLetter(a, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// failedStatsCmd counts.
type failedStatsCmd struct {
	places `embed:""`
}

func (c *failedStatsCmd) Check(a *app.App) error { return c.check(a) }

// Run counts each place.
func (c *failedStatsCmd) Run(a *app.App) error {
	counts := map[string]*letterCounts{}
	count := func(where string, all letters) error {
		n := newLetterCounts()
		for l, err := range c.only(all) {
			if err != nil {
				return err
			}
			n.add(l)
		}
		counts[where] = n
		return nil
	}
	err := c.each(a,
		func(db *outbox.Database) error { return count(inSQL, rowsOf(a, db, "")) },
		func(s *deadletter.Scan) error { return count(inBroker, Watched(a, s, "counting dead letters")) })
	return errors.Join(a.Emit(counts, func(w *cli.Text) {
		for _, place := range []struct{ where, title string }{{inSQL, "rows that were set aside in SQL"}, {inBroker, "dead letters in the broker"}} {
			if n := counts[place.where]; n != nil {
				w.Line("%s", place.title)
				n.print(w)
			}
		}
	}), err)
}
