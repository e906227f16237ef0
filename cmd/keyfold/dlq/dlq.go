// Package dlq has the commands about dead letters.
package dlq

import (
	"encoding/json"
	"errors"
	"iter"
	"text/tabwriter"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// Cmd looks after the dead letters.
type Cmd struct {
	List    listCmd    `cmd:"" help:"List dead letters, the oldest first. Read-only."`
	Show    showCmd    `cmd:"" help:"Show one dead letter in full. Read-only."`
	Stats   statsCmd   `cmd:"" help:"Count dead letters by reason and by event type. Read-only."`
	Replay  replayCmd  `cmd:"" help:"Publish the original events to the workers again."`
	Discard discardCmd `cmd:"" help:"Delete dead letters."`
}

// Scan opens a pass over the dead letters, hands it over and closes it.
func Scan(a *app.App, work func(*deadletter.Scan) error) error {
	s, err := deadletter.Open(a.Ctx, a.Servers.RabbitMQ, rabbit.DefaultNames())
	if err != nil {
		return app.BrokerUnreached(err)
	}
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
type listCmd struct {
	letterFilter `embed:""`
	Limit        uint `default:"1000" help:"Letters at most; 0: all."`
}

// Run prints a line per letter: a table, or NDJSON with -o json.
func (c *listCmd) Run(a *app.App) error {
	return Scan(a, func(s *deadletter.Scan) error {
		table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
		lines, encode := &cli.Text{W: table}, json.NewEncoder(a.Stdout)
		if !a.JSON {
			lines.Line("ID\tUSER\tTYPE\tREASON\tRETRIES\tFAILED AT")
		}
		for l, err := range limited(c.only(Watched(a, s, "reading dead letters")), c.Limit) {
			if err != nil {
				return err
			}
			if !a.JSON {
				printRow(lines, l)
			} else if err := encode.Encode(jsonOf(l)); err != nil {
				return err
			}
		}
		return errors.Join(lines.Err, table.Flush())
	})
}

// showCmd shows one letter.
type showCmd struct {
	ID string `arg:"" help:"The event's id, or the start of it."`
}

func (c *showCmd) Check(a *app.App) error { return a.CheckBroker() }

// Run prints every letter of the id: an event that was replayed in vain may
// have several.
func (c *showCmd) Run(a *app.App) error {
	return Scan(a, func(s *deadletter.Scan) error {
		letters, err := named(Watched(a, s, "looking for the letter"), c.ID)
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
type statsCmd struct {
	letterFilter `embed:""`
	Limit        uint `default:"0" help:"Letters at most; 0: all."`
}

// Run reads the letters one by one and keeps their counts only.
func (c *statsCmd) Run(a *app.App) error {
	return Scan(a, func(s *deadletter.Scan) error {
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
type discardCmd struct {
	ID           string `arg:"" optional:"" help:"The event's id, or the start of it; if omitted, all letters that match the filters."`
	letterFilter `embed:""`
	Limit        uint `default:"0" help:"Letters at most; 0: all."`
	Yes          bool `help:"Delete all letters that match the filters. There is no undo."`
}

// Check also asks for a clear word.
func (c *discardCmd) Check(a *app.App) error {
	var fault error
	if c.ID == "" && !c.Yes {
		fault = errors.New("discard drops letters for good: name one by its id, or say --yes " +
			"(`keyfold dlq list` with the same filters shows which would go)")
	}
	return errors.Join(fault, c.letterFilter.Check(a))
}

// Run drops the letters.
func (c *discardCmd) Run(a *app.App) error {
	dropped := 0
	err := Scan(a, func(s *deadletter.Scan) error {
		selected := selection{c.ID, c.letterFilter, c.Limit}
		for l, err := range selected.of(Watched(a, s, "discarding")) {
			if err != nil {
				return err
			}
			if err := s.Remove(l); err != nil {
				return err
			}
			dropped++
		}
		return nil
	})
	return errors.Join(err, a.Emit(map[string]int{"discarded": dropped}, func(w *cli.Text) {
		w.Line("discarded %s", plural(dropped, "dead letter"))
	}))
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return cli.Number(int64(n)) + " " + what
}
