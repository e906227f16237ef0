// Package failures has the commands about what failed: rows of the outbox that were set
// aside, and dead letters in the broker.
package failures

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"text/tabwriter"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/service/failed"
	"keyfold/source/outbox"
	"keyfold/source/rabbit/deadletter"
)

// Of has the commands over the failures of one application.
type Of[S Source, R Replay] struct {
	List   listCmd[S]   `cmd:"" help:"List failures, the oldest first. Read-only."`
	Show   showCmd[S]   `cmd:"" help:"Show one failure in full. Read-only."`
	Stats  statsCmd[S]  `cmd:"" help:"Count failures by reason and by event type. Read-only."`
	Retry  retryCmd[R]  `cmd:"" help:"Give failures another try: dead letters are published to the workers again, rows by the relay."`
	Remove removeCmd[S] `cmd:"" help:"Delete failures."`
}

// Cmd looks after all that failed of events that are folded.
type Cmd struct {
	Of[everywhere, retried] `embed:""`
	Archive                 archiveCmd `cmd:"" help:"Move dead letters from the broker into SQL."`
}

// Former keeps the old names of the commands, replay and discard. The second release removes
// them.
type Former[S Source, R Replay] struct {
	Of[S, R] `embed:""`
	Replay   retryCmd[R]  `cmd:"" help:"The former name of retry."`
	Discard  removeCmd[S] `cmd:"" help:"The former name of remove."`
}

// Dlq is the former name of Cmd, for the broker alone.
type Dlq = Former[events, replayed]

// Scan opens a pass over the dead letters of events that are folded, hands it over and
// closes it.
func Scan(a *app.App, work func(*deadletter.Scan) error) error { return scan(a, events{}, work) }

func scan(a *app.App, source Source, work func(*deadletter.Scan) error) error {
	s, err := deadletter.Open(a.Ctx, a.Servers.RabbitMQ, source.Queue())
	if err != nil {
		return app.BrokerUnreached(err)
	}
	s.Describe = source.Describe()
	return errors.Join(work(s), s.Close())
}

// Watched is the letters of a pass, with its progress shown.
func Watched(a *app.App, s *deadletter.Scan, what string) iter.Seq2[*deadletter.Letter, error] {
	return func(yield func(*deadletter.Letter, error) bool) {
		bar := a.Progress(what, int64(s.Waiting), nil)
		defer bar.Done()
		read := 0
		for l, err := range s.Letters(a.Ctx) {
			read++
			bar.At(read)
			if !yield(l, err) {
				return
			}
		}
	}
}

// listCmd lists failures.
type listCmd[S Source] struct {
	Source       S `embed:""`
	letterFilter `embed:""`
	Limit        uint `default:"1000" help:"Failures of each place at most; 0: all."`
}

func (c *listCmd[S]) Check(a *app.App) error { return c.check(a, c.Source, "") }

// Run prints a line per failure: a table, or NDJSON with -o json.
func (c *listCmd[S]) Run(a *app.App) error {
	l := list{app: a, several: c.Source.Texts().Several, now: time.Now(), table: tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)}
	err := each(a, c.Source.Where(""),
		func(db *outbox.Database) error { return l.add(inSQL, limited(c.only(rowsOf(a, db, "")), c.Limit)) },
		func() error {
			return scan(a, c.Source, func(s *deadletter.Scan) error {
				read, rows := 0, l.shown
				err := l.add(inBroker, limited(c.only(counted(Watched(a, s, "reading dead letters"), &read)), c.Limit))
				l.table.Flush() // the note follows what is shown
				return errors.Join(err, c.note(a, l.shown-rows, read, s.Waiting))
			})
		})
	if l.several && l.shown == 0 && err == nil && !a.JSON {
		fmt.Fprintln(a.Stderr, "there is no failure that matches")
	}
	return errors.Join(err, l.table.Flush())
}

// list prints failures and counts them.
type list struct {
	app     *app.App
	several bool // more than one place is listed: each line begins with its own
	now     time.Time
	table   *tabwriter.Writer
	shown   int
}

// failureJSON is a failure's line in -o json.
type failureJSON struct {
	Where string `json:"where,omitempty"`
	failed.JSON
}

// add shows the failures of a place.
func (l *list) add(where string, all letters) error {
	lines, encode := &cli.Text{W: l.table}, l.app.Encoder()
	column, heading := where+"\t", "WHERE\t"
	if !l.several {
		where, column, heading = "", "", ""
	}
	for letter, err := range all {
		if err != nil {
			return err
		}
		one := viewOf(where, letter)
		if l.shown++; l.app.JSON {
			if err := encode.Encode(failureJSON{where, one.JSON()}); err != nil {
				return err
			}
			continue
		}
		if l.shown == 1 {
			lines.Line("%s%s", heading, strings.Join(failed.Head, "\t"))
		}
		lines.Line("%s%s", column, strings.Join(one.Row(l.now), "\t"))
	}
	return lines.Err
}

// note says on standard error what the list does not show of the broker: letters behind
// the limit, or, where it lists nothing else, that there are none.
func (c *listCmd[S]) note(a *app.App, shown, read, waiting int) (err error) {
	all, texts := cli.Count(int64(waiting), "dead letter"), c.Source.Texts()
	switch {
	case a.JSON:
	case read < waiting && shown > 0 && c.letterFilter == letterFilter{}:
		_, err = fmt.Fprintf(a.Stderr, "%d of %s; --limit 0 lists all\n", shown, all)
	case read < waiting && shown > 0:
		_, err = fmt.Fprintf(a.Stderr, "%d of %s were read; --limit 0 lists all that match\n", read, all)
	case shown > 0 || texts.Several:
	case waiting == 0:
		_, err = fmt.Fprintln(a.Stderr, "there is no dead letter")
	default:
		_, err = fmt.Fprintf(a.Stderr, "0 of %s match; %s stats counts them by reason and type\n", all, texts.Command)
	}
	return err
}

// showCmd shows one failure.
type showCmd[S Source] struct {
	Source S      `embed:""`
	ID     string `arg:"" help:"The id that list shows, or the start of a dead letter's."`
}

func (c *showCmd[S]) Check(a *app.App) error {
	var none letterFilter
	return none.check(a, c.Source, c.ID)
}

// Run prints the row, or every letter of the id: an event that was retried in vain may
// have several.
func (c *showCmd[S]) Run(a *app.App) error {
	return each(a, c.Source.Where(c.ID), func(db *outbox.Database) error {
		rows, err := picked(rowsOf(a, db, c.ID), c.ID)
		return errors.Join(err, printLetters(a, inSQL, rows))
	}, func() error {
		return scan(a, c.Source, func(s *deadletter.Scan) error {
			found, err := named(Watched(a, s, "looking for the letter"), c.ID, c.Source)
			return errors.Join(err, printLetters(a, inBroker, found))
		})
	})
}

// statsCmd counts failures.
type statsCmd[S Source] struct {
	Source       S `embed:""`
	letterFilter `embed:""`
	Limit        uint `default:"0" help:"Failures of each place at most; 0: all."`
}

func (c *statsCmd[S]) Check(a *app.App) error { return c.check(a, c.Source, "") }

// Run reads the failures one by one and keeps their counts only.
func (c *statsCmd[S]) Run(a *app.App) error {
	counts := map[string]*failed.Counts{}
	count := func(where string, all letters) error {
		n := failed.NewCounts()
		for l, err := range limited(c.only(all), c.Limit) {
			if err != nil {
				return err
			}
			n.Add(viewOf(where, l))
		}
		counts[where] = n
		return nil
	}
	err := each(a, c.Source.Where(""),
		func(db *outbox.Database) error { return count(inSQL, rowsOf(a, db, "")) },
		func() error {
			return scan(a, c.Source, func(s *deadletter.Scan) error { return count(inBroker, Watched(a, s, "counting dead letters")) })
		})
	if letters := counts[inBroker]; !c.Source.Texts().Several {
		if err != nil {
			return err
		}
		return a.Emit(letters, letters.Print)
	}
	return errors.Join(a.Emit(counts, func(w *cli.Text) {
		for _, place := range []struct{ where, title string }{{inSQL, "rows that were set aside in SQL"}, {inBroker, "dead letters in the broker"}} {
			if n := counts[place.where]; n != nil {
				w.Line("%s", place.title)
				n.Print(w)
			}
		}
	}), err)
}
