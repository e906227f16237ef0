// Package dlq has the commands about dead letters.
package dlq

import (
	"errors"
	"fmt"
	"iter"
	"text/tabwriter"
	"time"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/source/rabbit/deadletter"
)

// Of looks after the dead letters of an application.
type Of[S Source, R Replay] struct {
	List    listCmd[S]    `cmd:"" help:"List dead letters, the oldest first. Read-only."`
	Show    showCmd[S]    `cmd:"" help:"Show one dead letter in full. Read-only."`
	Stats   statsCmd[S]   `cmd:"" help:"Count dead letters by reason and by event type. Read-only."`
	Replay  replayCmd[R]  `cmd:"" help:"Publish the original events to the workers again."`
	Discard discardCmd[S] `cmd:"" help:"Delete dead letters."`
}

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

// listCmd lists letters.
type listCmd[S Source] struct {
	Source       S `embed:""`
	letterFilter `embed:""`
	Limit        uint `default:"1000" help:"Letters at most; 0: all."`
}

func (c *listCmd[S]) Check(a *app.App) error { return c.check(a, c.Source) }

// Run prints a line per letter: a table, or NDJSON with -o json.
func (c *listCmd[S]) Run(a *app.App) error {
	return scan(a, c.Source, func(s *deadletter.Scan) error {
		table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
		lines, encode := &cli.Text{W: table}, a.Encoder()
		now := time.Now()
		read, shown := 0, 0
		for l, err := range limited(c.only(counted(Watched(a, s, "reading dead letters"), &read)), c.Limit) {
			if err != nil {
				return err
			}
			if shown++; a.JSON {
				if err := encode.Encode(jsonOf(l)); err != nil {
					return err
				}
				continue
			}
			if shown == 1 {
				lines.Line("ID\tUSER\tTYPE\tREASON\tRETRIES\tFAILED AT\tAGE\tERROR")
			}
			printRow(lines, l, now)
		}
		return errors.Join(lines.Err, table.Flush(), c.note(a, shown, read, s.Waiting))
	})
}

// note says on standard error what the list does not show: letters behind the limit,
// or that there are none.
func (c *listCmd[S]) note(a *app.App, shown, read, waiting int) (err error) {
	all := cli.Count(int64(waiting), "dead letter")
	switch {
	case a.JSON:
	case waiting == 0:
		_, err = fmt.Fprintln(a.Stderr, "there is no dead letter")
	case shown == 0:
		_, err = fmt.Fprintf(a.Stderr, "0 of %s match; %s stats counts them by reason and type\n", all, c.Source.Texts().Command)
	case read < waiting && c.letterFilter == letterFilter{}:
		_, err = fmt.Fprintf(a.Stderr, "%d of %s; --limit 0 lists all\n", shown, all)
	case read < waiting:
		_, err = fmt.Fprintf(a.Stderr, "%d of %s were read; --limit 0 lists all that match\n", read, all)
	}
	return err
}

// showCmd shows one letter.
type showCmd[S Source] struct {
	Source S      `embed:""`
	ID     string `arg:"" help:"The event's id, or the start of it."`
}

func (c *showCmd[S]) Check(a *app.App) error { return a.CheckBroker() }

// Run prints every letter of the id: an event that was replayed in vain may
// have several.
func (c *showCmd[S]) Run(a *app.App) error {
	return scan(a, c.Source, func(s *deadletter.Scan) error {
		letters, err := named(Watched(a, s, "looking for the letter"), c.ID, c.Source)
		if err != nil {
			return err
		}
		for _, l := range letters {
			if err := printLetter(a, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// statsCmd counts letters.
type statsCmd[S Source] struct {
	Source       S `embed:""`
	letterFilter `embed:""`
	Limit        uint `default:"0" help:"Letters at most; 0: all."`
}

func (c *statsCmd[S]) Check(a *app.App) error { return c.check(a, c.Source) }

// Run reads the letters one by one and keeps their counts only.
func (c *statsCmd[S]) Run(a *app.App) error {
	return scan(a, c.Source, func(s *deadletter.Scan) error {
		counts := newLetterCounts()
		for l, err := range limited(c.only(Watched(a, s, "counting dead letters")), c.Limit) {
			if err != nil {
				return err
			}
			counts.add(l)
		}
		return a.Emit(counts, counts.print)
	})
}

// discardCmd drops letters.
type discardCmd[S Source] struct {
	Source           S      `embed:""`
	ID               string `arg:"" optional:"" help:"The event's id, or the start of it; if omitted, all letters that match the filters."`
	letterFilter     `embed:""`
	Limit            uint `default:"0" help:"Letters at most; 0: all."`
	cli.Confirmation `embed:""`
}

// Help is the long text.
func (c *discardCmd[S]) Help() string {
	t := c.Source.Texts()
	return fmt.Sprintf(`There is no way back. %[1]s list with the same filters shows which letters would go.

Examples:
  %[1]s discard 3f9a
  %[1]s discard --user %[2]s --dry-run
  %[1]s discard --type %[3]s --failed-before 30d --yes`, t.Command, t.User, t.Type)
}

func (c *discardCmd[S]) Check(a *app.App) error {
	return errors.Join(a.CheckConfirm(c.Confirmation), c.check(a, c.Source))
}

// Run drops the letters. It counts them first where it has to say or to ask how
// many. No letter is held while a question waits.
func (c *discardCmd[S]) Run(a *app.App) error {
	selected := selection{c.Source, c.ID, c.letterFilter, c.Limit}
	if !c.Yes || c.DryRun {
		n, err := c.pass(a, selected, "reading dead letters", func(*deadletter.Scan, *deadletter.Letter) error { return nil })
		if err != nil {
			return err
		}
		if c.DryRun || n == 0 {
			return c.print(a, n)
		}
		if err := a.Confirm(c.Confirmation, fmt.Sprintf("Discard %s? There is no way back.", cli.Count(n, "dead letter"))); err != nil {
			return err
		}
		selected.limit = uint(n) // those that came since were not asked for
	}
	n, err := c.pass(a, selected, "discarding", func(s *deadletter.Scan, l *deadletter.Letter) error { return s.Remove(l) })
	return errors.Join(err, c.print(a, n))
}

// pass calls do with each of the selected letters and returns how many there were.
func (c *discardCmd[S]) pass(a *app.App, selected selection, what string, do func(*deadletter.Scan, *deadletter.Letter) error) (n int64, err error) {
	err = scan(a, c.Source, func(s *deadletter.Scan) error {
		for l, err := range selected.of(Watched(a, s, what)) {
			if err != nil {
				return err
			}
			if err := do(s, l); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

func (c *discardCmd[S]) print(a *app.App, n int64) error {
	return a.Emit(map[string]any{"discarded": n, "dry_run": c.DryRun}, func(w *cli.Text) {
		w.Line("%s %s", cli.Count(n, "dead letter"), c.Done("discarded"))
	})
}
