package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"text/tabwriter"

	"keyfold/cmd/terminal"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

type dlqCmd struct {
	List    dlqListCmd    `cmd:"" help:"List dead letters, the oldest first. Read-only."`
	Show    dlqShowCmd    `cmd:"" help:"Show one dead letter in full. Read-only."`
	Stats   dlqStatsCmd   `cmd:"" help:"Count dead letters by reason and by event type. Read-only."`
	Replay  dlqReplayCmd  `cmd:"" help:"Publish the original events to the workers again."`
	Discard dlqDiscardCmd `cmd:"" help:"Delete dead letters."`
}

// scan opens a pass over the dead letters, hands it over and closes it.
func (a *app) scan(work func(*deadletter.Scan) error) error {
	s, err := deadletter.Open(a.ctx, a.servers.RabbitMQ, rabbit.DefaultNames())
	if err != nil {
		return brokerUnreached(err)
	}
	return errors.Join(work(s), s.Close())
}

// watched is the letters of a pass, with its progress shown.
func (a *app) watched(s *deadletter.Scan, what string) iter.Seq2[*deadletter.Letter, error] {
	return func(yield func(*deadletter.Letter, error) bool) {
		bar := a.progress(what, int64(s.Waiting), nil)
		defer bar.Done()
		read := 0
		for l, err := range s.Letters(a.ctx) {
			read++
			bar.At(read)
			if !yield(l, err) {
				return
			}
		}
	}
}

// dlqListCmd lists letters.
type dlqListCmd struct {
	letterFilter `embed:""`
	Limit        uint `default:"1000" help:"Letters at most; 0: all."`
}

// Run prints a line per letter: a table, or NDJSON with -o json.
func (c *dlqListCmd) Run(a *app) error {
	return a.scan(func(s *deadletter.Scan) error {
		table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		lines, encode := &terminal.Text{W: table}, json.NewEncoder(a.stdout)
		if !a.json {
			lines.Line("ID\tUSER\tTYPE\tREASON\tRETRIES\tFAILED AT")
		}
		for l, err := range limited(c.only(a.watched(s, "reading dead letters")), c.Limit) {
			if err != nil {
				return err
			}
			if !a.json {
				printRow(lines, l)
			} else if err := encode.Encode(jsonOf(l)); err != nil {
				return err
			}
		}
		return errors.Join(lines.Err, table.Flush())
	})
}

// dlqShowCmd shows one letter.
type dlqShowCmd struct {
	ID string `arg:"" help:"The event's id, or the start of it."`
}

func (c *dlqShowCmd) check(a *app) error { return a.checkBroker() }

// Run prints every letter of the id: an event that was replayed in vain may
// have several.
func (c *dlqShowCmd) Run(a *app) error {
	return a.scan(func(s *deadletter.Scan) error {
		letters, err := named(a.watched(s, "looking for the letter"), c.ID)
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

// dlqStatsCmd counts letters.
type dlqStatsCmd struct {
	letterFilter `embed:""`
	Limit        uint `default:"0" help:"Letters at most; 0: all."`
}

// Run reads the letters one by one and keeps their counts only.
func (c *dlqStatsCmd) Run(a *app) error {
	return a.scan(func(s *deadletter.Scan) error {
		counts := newLetterCounts()
		for l, err := range limited(c.only(a.watched(s, "counting dead letters")), c.Limit) {
			if err != nil {
				return err
			}
			counts.add(l)
		}
		if a.json {
			return json.NewEncoder(a.stdout).Encode(counts)
		}
		w := &terminal.Text{W: a.stdout}
		counts.print(w)
		return w.Err
	})
}

// dlqDiscardCmd drops letters.
type dlqDiscardCmd struct {
	ID           string `arg:"" optional:"" help:"The event's id, or the start of it; if omitted, all letters that match the filters."`
	letterFilter `embed:""`
	Limit        uint `default:"0" help:"Letters at most; 0: all."`
	Yes          bool `help:"Delete all letters that match the filters. There is no undo."`
}

// check also asks for a clear word.
func (c *dlqDiscardCmd) check(a *app) error {
	var fault error
	if c.ID == "" && !c.Yes {
		fault = errors.New("discard drops letters for good: name one by its id, or say --yes " +
			"(`keyfold dlq list` with the same filters shows which would go)")
	}
	return errors.Join(fault, c.letterFilter.check(a))
}

// Run drops the letters.
func (c *dlqDiscardCmd) Run(a *app) error {
	dropped := 0
	err := a.scan(func(s *deadletter.Scan) error {
		selected := selection{c.ID, c.letterFilter, c.Limit}
		for l, err := range selected.of(a.watched(s, "discarding")) {
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
	if a.json {
		return errors.Join(err, json.NewEncoder(a.stdout).Encode(map[string]int{"discarded": dropped}))
	}
	fmt.Fprintf(a.stdout, "discarded %s\n", plural(dropped, "dead letter"))
	return err
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return terminal.Number(int64(n)) + " " + what
}
