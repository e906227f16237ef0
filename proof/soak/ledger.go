package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"keyfold/engine/profile"
	"keyfold/proof/oracle"
	"keyfold/source/rabbit"
	"keyfold/source/vector"
)

// ledger is what was published, and what has to have become of it.
type ledger struct {
	oracle    *oracle.Oracle
	published int
	products  map[int32]bool
	// events are those that have to be in their user's profile, once.
	events map[int32]map[profile.AppliedID]string
	poison map[string]bool // ids of what has to be among the dead letters
}

func newLedger(dimensions int, short time.Duration, products []profile.Product) (*ledger, error) {
	c := profile.DefaultConfig()
	c.Dimensions, c.Model, c.ShortHalfLife = dimensions, vector.HashModel, short
	o, err := oracle.New(c, products)
	if err != nil {
		return nil, err
	}
	l := &ledger{oracle: o, products: map[int32]bool{}, events: map[int32]map[profile.AppliedID]string{}, poison: map[string]bool{}}
	for _, p := range products {
		l.products[p.ID] = true
	}
	return l, nil
}

// add takes in a message the broker has confirmed. In which order they come does
// not matter.
func (l *ledger) add(m *rabbit.Message) error {
	l.published++
	e, good := parse(m.Body)
	if !good {
		l.poison[m.ID] = true
		return nil
	}
	if e.Type.HasPhrase() || l.products[e.ProductID] {
		user := l.events[e.UserID]
		if user == nil {
			user = map[profile.AppliedID]string{}
			l.events[e.UserID] = user
		}
		user[e.Digest.ID()] = e.MessageID
	}
	return l.oracle.AddEvent(&e)
}

// parse reads an event; what no worker would take either is not good.
func parse(body []byte) (e profile.Event, good bool) {
	e, err := profile.ParseEvent(body, time.Now())
	return e, err == nil
}

// findings are the differences between what is stored and what has to be.
type findings struct {
	lost    []string // events in no profile, poison in no letter
	doubled []string // events folded twice
	other   []string
	copies  int // dead letters beyond one per poison
	letters int // different ones
}

func (f *findings) err() error {
	if len(f.lost)+len(f.doubled)+len(f.other) == 0 {
		return nil
	}
	var errs []error
	for name, list := range map[string][]string{"lost": f.lost, "doubled": f.doubled, "differs": f.other} {
		if len(list) > 0 {
			errs = append(errs, fmt.Errorf("%s: %d\n  %s", name, len(list), strings.Join(first(list, 20), "\n  ")))
		}
	}
	return errors.Join(errs...)
}

func first(list []string, n int) []string {
	if len(list) <= n {
		return list
	}
	return append(slices.Clone(list[:n]), fmt.Sprintf("and %d more", len(list)-n))
}

// compare holds the ledger against all profiles and the ids of all dead letters,
// copies included.
func (l *ledger) compare(profiles map[int32]*profile.Profile, letters []string) *findings {
	f := &findings{}
	for user, events := range l.events {
		f.account(user, events, profiles[user])
	}
	for _, user := range slices.Sorted(maps.Keys(profiles)) {
		if err := l.oracle.Check(profiles[user]); err != nil {
			f.other = append(f.other, err.Error())
		}
	}
	l.compareLetters(f, letters)
	return f
}

// account looks for one user's events by their ids. A profile that has dropped
// ids cannot be asked for single ones: its count tells.
func (f *findings) account(user int32, events map[profile.AppliedID]string, p *profile.Profile) {
	if p == nil {
		f.lost = append(f.lost, fmt.Sprintf("user %d: no profile, %d events", user, len(events)))
		return
	}
	seen := map[profile.AppliedID]int{}
	for _, id := range p.Applied.IDs {
		seen[id]++
		switch name, known := events[id]; {
		case !known:
			f.other = append(f.other, fmt.Sprintf("user %d: holds an event that was not published, digest %x", user, id))
		case seen[id] > 1:
			f.doubled = append(f.doubled, fmt.Sprintf("user %d: event %s", user, name))
		}
	}
	missing := 0
	if p.Applied.Floor == 0 {
		for digest, name := range events {
			if seen[digest] == 0 {
				missing++
				f.lost = append(f.lost, fmt.Sprintf("user %d: event %s", user, name))
			}
		}
	}
	switch n := p.EventCount - int64(len(events)-missing); {
	case n > 0:
		f.doubled = append(f.doubled, fmt.Sprintf("user %d: %d events too many in event_count %d", user, n, p.EventCount))
	case n < 0:
		f.lost = append(f.lost, fmt.Sprintf("user %d: %d events too few in event_count %d", user, -n, p.EventCount))
	}
}

func (l *ledger) compareLetters(f *findings, letters []string) {
	buried := map[string]bool{}
	for _, id := range letters {
		if !l.poison[id] && !buried[id] {
			f.other = append(f.other, fmt.Sprintf("dead letter %s is a good event", id))
		}
		buried[id] = true
	}
	f.letters, f.copies = len(buried), len(letters)-len(buried)
	for id := range l.poison {
		if !buried[id] {
			f.lost = append(f.lost, "no dead letter "+id)
		}
	}
}
