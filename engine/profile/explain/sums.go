package explain

import (
	"cmp"
	"slices"
	"time"

	"keyfold/engine"
)

// Pause is how long a user does nothing between two sessions.
const Pause = 30 * time.Minute

// Sum is what several events count in the vector.
type Sum struct {
	Name        string
	Events      int
	Share       float64
	From, Until engine.Millis // of the events' times
}

// By sums the parts of the known events by a name, the largest share first.
func (x *Explanation) By(name func(*Event) string) (sums []Sum) {
	at := map[string]int{}
	for _, p := range x.Parts {
		if !p.Event.known() {
			continue
		}
		name := name(p.Event)
		i, ok := at[name]
		if !ok {
			i, at[name] = len(sums), len(sums)
			sums = append(sums, Sum{Name: name, From: p.Event.OccurredAt})
		}
		sums[i].add(p)
	}
	slices.SortStableFunc(sums, func(a, b Sum) int { return cmp.Compare(b.Share, a.Share) })
	return sums
}

func (s *Sum) add(p Part) {
	s.Events++
	s.Share += p.Share
	s.From, s.Until = min(s.From, p.Event.OccurredAt), max(s.Until, p.Event.OccurredAt)
}

// Sessions sums the known events by session, the last one first. A pause longer than
// [Pause] ends one.
func (x *Explanation) Sessions() (sessions []Sum) {
	parts := slices.DeleteFunc(slices.Clone(x.Parts), func(p Part) bool { return !p.Event.known() })
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Event.OccurredAt, a.Event.OccurredAt) })
	for _, p := range parts {
		n := len(sessions)
		if n == 0 || sessions[n-1].From-p.Event.OccurredAt > engine.Millis(Pause.Milliseconds()) {
			sessions = append(sessions, Sum{From: p.Event.OccurredAt})
			n++
		}
		sessions[n-1].add(p)
	}
	return sessions
}

// ages are the classes of [Age].
var ages = []struct {
	below time.Duration
	name  string
}{
	{time.Hour, "under 1 h"},
	{24 * time.Hour, "under 1 d"},
	{7 * 24 * time.Hour, "under 7 d"},
	{30 * 24 * time.Hour, "under 30 d"},
	{90 * 24 * time.Hour, "under 90 d"},
}

// Age returns a name for the class of an event's age.
func Age(now engine.Millis) func(*Event) string {
	return func(e *Event) string {
		for _, class := range ages {
			if now-e.OccurredAt < engine.Millis(class.below.Milliseconds()) {
				return class.name
			}
		}
		return "90 d and older"
	}
}
