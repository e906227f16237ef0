package failures

import (
	"keyfold/cmd/keyfold/app"
	"keyfold/service/failed"
	"keyfold/source/rabbit/deadletter"
)

// letterPass is a pass over the selected letters.
type letterPass struct {
	Selection
	dryRun bool
	read   watched
	gone   func(*deadletter.Letter) // told of each that has left the queue; nil: it is not

	waiting int // letters when it began
	reasons failed.Reasons
}

// watched reads the letters of a pass, and says how far it is.
type watched func(*deadletter.Scan) letters

// watching shows it on a terminal.
func watching(a *app.App, what string) watched {
	return func(s *deadletter.Scan) letters { return Watched(a, s, what) }
}

// over yields the selected letters.
func (p *letterPass) over(s *deadletter.Scan) letters {
	p.waiting, p.reasons = s.Waiting, failed.Reasons{}
	return p.letters(p.read(s))
}

// took counts a letter that went, or in a dry run would go.
func (p *letterPass) took(l *deadletter.Letter) {
	p.reasons.Of(reasonOf(l)).Done++
	if p.gone != nil && !p.dryRun {
		p.gone(l)
	}
}

// stays counts one that does not.
func (p *letterPass) stays(l *deadletter.Letter) { p.reasons.Of(reasonOf(l)).Skipped++ }

// removing is a pass that removes what is selected.
type removing struct {
	letterPass
	Removed int64
}

func (r *removing) run(a *app.App) error {
	return scan(a, r.Source, func(s *deadletter.Scan) error {
		for l, err := range r.over(s) {
			if err != nil {
				return err
			}
			if !r.dryRun {
				if err := s.Remove(l); err != nil {
					return err
				}
			}
			r.Removed++
			r.took(l)
		}
		return nil
	})
}
