package failures

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/service/failed"
	"keyfold/source/outbox"
	"keyfold/source/rabbit/deadletter"
)

// letterFilter says which letters a command is about: those that meet every
// filter given.
type letterFilter struct {
	Type         string      `placeholder:"TYPE" help:"Event type as the letter has it (stats lists them), also one that no event may have."`
	User         *string     `placeholder:"ID" help:"User id."`
	Error        string      `placeholder:"TEXT" help:"Part of the reason or of an error's text; case does not count."`
	FailedAfter  cli.Instant `placeholder:"WHEN" help:"Given up at or after: 2026-02-10T14:30:00Z, or how long ago: 2h, 3d."`
	FailedBefore cli.Instant `placeholder:"WHEN" help:"Given up before."`
}

// check refuses filters that no letter can meet, and the settings of a server that is
// looked at: for an id, or for all failures of a source.
func (f *letterFilter) check(a *app.App, source Source, id string) (err error) {
	if f.User != nil {
		*f.User, err = source.ReadUser(*f.User)
	}
	err = errors.Join(err, cli.CheckSpan(f.FailedAfter, f.FailedBefore, "--failed-after", "--failed-before"))
	where := source.Where(id)
	if where != inSQL {
		err = errors.Join(err, a.CheckBroker())
	}
	if where == inSQL || source.Texts().Several && a.Servers.SQL != "" {
		err = errors.Join(err, a.CheckDatabase())
	}
	return err
}

// filter is what the flags say.
func (f *letterFilter) filter() *failed.Filter {
	return &failed.Filter{Type: f.Type, User: f.User, Error: f.Error, After: f.FailedAfter.Time, Before: f.FailedBefore.Time}
}

type letters = iter.Seq2[*deadletter.Letter, error]

// only leaves the letters that match; errors pass.
func (f *letterFilter) only(all letters) letters { return matching(all, "", f.filter().Matches) }

// matching leaves the letters of a place that match; errors pass.
func matching(all letters, where string, matches func(*failed.Letter) bool) letters {
	return func(yield func(*deadletter.Letter, error) bool) {
		for l, err := range all {
			if (err != nil || matches(viewOf(where, l))) && !yield(l, err) {
				return
			}
		}
	}
}

// counted counts the letters that are read.
func counted(all letters, n *int) letters {
	return func(yield func(*deadletter.Letter, error) bool) {
		for l, err := range all {
			*n++
			if !yield(l, err) {
				return
			}
		}
	}
}

// limited ends after n letters; 0 is no limit.
func limited(all letters, n uint) letters {
	if n == 0 {
		return all
	}
	return func(yield func(*deadletter.Letter, error) bool) {
		left := n
		for l, err := range all {
			left--
			if !yield(l, err) || left == 0 {
				return
			}
		}
	}
}

// chosen is the failure of an id, or those that the filters name.
type chosen[S Source] struct {
	Source       S      `embed:""`
	ID           string `arg:"" optional:"" help:"The id that list shows, or the start of a dead letter's; if omitted, all that match the filters."`
	letterFilter `embed:""`
	Limit        uint `default:"0" help:"Failures of each place at most; 0: all."`
}

func (c *chosen[S]) Check(a *app.App) error { return c.check(a, c.Source, c.ID) }

// selection is what the flags choose.
func (c *chosen[S]) selection() Selection {
	return Selection{Source: c.Source, ID: c.ID, Matches: c.filter().Matches, Limit: c.Limit}
}

// Selection says which failures of a source are meant.
type Selection struct {
	Source  Source
	ID      string // the failure of this id, or of the one that starts so; "": all that match
	Matches func(*failed.Letter) bool
	Limit   uint   // failures of each place at most; 0: all
	Place   string // of the letters, as Matches knows it
}

// rows returns the selected rows; none of an id is an error.
func (s *Selection) rows(a *app.App, db *outbox.Database) ([]*deadletter.Letter, error) {
	return picked(limited(matching(rowsOf(a, db, s.ID), inSQL, s.Matches), s.Limit), s.ID)
}

// letters leaves the selected letters.
func (s *Selection) letters(all letters) letters {
	if s.ID != "" {
		all = namedOf(all, s.ID, s.Source)
	}
	return limited(matching(all, s.Place, s.Matches), s.Limit)
}

// namedOf yields what named returns.
func namedOf(all letters, id string, source Source) letters {
	return func(yield func(*deadletter.Letter, error) bool) {
		found, err := named(all, id, source)
		if err != nil {
			yield(nil, err)
		}
		for _, l := range found {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// starts reports whether an id starts so, with or without what digests start with.
func starts(id, start string) bool {
	return strings.HasPrefix(id, start) || strings.HasPrefix(strings.TrimPrefix(id, deadletter.DigestPrefix), start)
}

// named returns the letters of an id, or of the one id that starts so. The whole
// queue is read before anything is done: a start may fit another id further on.
func named(all letters, id string, source Source) ([]*deadletter.Letter, error) {
	var exact, begins []*deadletter.Letter
	var others []string
	for l, err := range all {
		switch {
		case err != nil:
			return nil, err
		case l.ID == id:
			exact = append(exact, l)
		case !starts(l.ID, id):
		case len(begins) == 0 || begins[0].ID == l.ID:
			begins = append(begins, l)
		case len(others) < 5 && !slices.Contains(others, l.ID):
			others = append(others, l.ID)
		}
	}
	switch {
	case len(exact) > 0:
		return exact, nil
	case len(begins) == 0:
		return nil, fmt.Errorf("no dead letter has an id that starts with %q; `%s list` shows what there is", id, source.Texts().Command)
	case len(others) > 0:
		return nil, fmt.Errorf("several ids start with %q: %s; give more of it", id,
			cli.Printable(strings.Join(append([]string{begins[0].ID}, others...), ", ")))
	}
	return begins, nil
}
