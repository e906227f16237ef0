package processor_test

import (
	"context"
	"errors"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// A batch may hold one event twice, once from a session that is over, whose verdict
// is dropped. Were the other copy called a duplicate, it would be acknowledged,
// and the retry or the dead letter of the first one never be made.
func TestCopiesShareAVerdict(t *testing.T) {
	rejected := profile.DigestOf("rejected").ID()
	f := newFixture(t)
	f.ports.vector = func(key string) (engine.Resolved, bool) {
		switch key {
		case "phrase slow":
			return engine.Resolved{Err: errors.New("timed out")}, true
		case "phrase away":
			return engine.Resolved{Err: engine.ErrAway}, true
		case "product 3":
			return engine.Resolved{Err: engine.PermanentError("not_finite", errors.New("NaN"))}, true
		}
		return engine.Resolved{}, false
	}
	f.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
		for _, id := range profiles[0].Applied.IDs {
			if id == rejected {
				return []error{engine.PermanentError("document_rejected", errors.New("failed validation"))}
			}
		}
		return f.store.Swap(ctx, profiles)
	}
	cases := []struct {
		want engine.Outcome
		make func() *letter
	}{
		{engine.Retry, func() *letter { return search(1, "slow", "slow", 1) }},
		{engine.Park, func() *letter { return search(1, "away", "away", 2) }},
		{engine.Dead, func() *letter { return view(1, "broken", 3, 3) }},
		{engine.Dead, func() *letter { return view(1, "rejected", 4, 4) }},
	}
	for _, mates := range []bool{false, true} {
		for _, c := range cases {
			copies := []*letter{c.make(), c.make(), c.make()}
			all := copies
			if mates {
				all = append(all, view(1, "mate of "+copies[0].event.MessageID, 1, 5), view(1, "mate of "+copies[0].event.MessageID, 1, 5))
			}
			f.apply(batch(all...))
			for _, l := range copies {
				l.want(t, c.want)
			}
			for i, l := range all[3:] {
				l.want(t, []engine.Outcome{engine.Folded, engine.Duplicate}[i])
			}
		}
	}
}

// A copy that repeats an event past the horizon is judged by itself: it may have
// come for the first time.
func TestTwinOfAnEventPastTheHorizon(t *testing.T) {
	f := newFixture(t)
	floor := engine.Millis(1000)
	if err := f.store.Swap(context.Background(), []*profile.Profile{{
		UserID: 1, Version: 1, Vector: vectorOf("product 1"), Mass: 1, History: f.config.History,
		Applied: profile.Applied{Floor: floor},
	}})[0]; err != nil {
		t.Fatal(err)
	}
	copies := []*letter{view(1, "old", 1, 1), view(1, "old", 1, 1), view(1, "old", 1, 1), view(1, "old", 1, 1)}
	copies[0].firstSeen, copies[1].firstSeen = floor, floor
	f.apply(batch(copies...))
	for i, want := range []engine.Outcome{engine.Dead, engine.Dead, engine.Folded, engine.Duplicate} {
		copies[i].want(t, want)
	}
}

// An event that is found written after a lost answer ends with its copies, also
// where its batch mates end otherwise.
func TestCopiesOfAnEventThatWasWritten(t *testing.T) {
	bad := profile.DigestOf("bad").ID()
	f := newFixture(t)
	writes := 0
	f.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
		p := profiles[0]
		if writes++; writes == 1 {
			// Another worker has written the first event meanwhile.
			other := *p
			other.Applied.IDs = p.Applied.IDs[:1]
			if err := f.store.Swap(ctx, []*profile.Profile{&other})[0]; err != nil {
				return []error{err}
			}
			return []error{engine.ErrUnknown}
		}
		for _, id := range p.Applied.IDs {
			if id == bad {
				return []error{engine.PermanentError("document_rejected", errors.New("failed validation"))}
			}
		}
		return f.store.Swap(ctx, profiles)
	}
	for _, mates := range [][]*letter{
		{view(1, "bad", 2, 2)},
		{view(1, "bad", 2, 2), view(1, "good", 2, 3), view(1, "good", 2, 3)},
	} {
		writes = 0
		f.store.Delete(1)
		first, again := view(1, "first", 1, 1), view(1, "first", 1, 1)
		f.apply(batch(append([]*letter{first, again}, mates...)...))
		first.want(t, engine.Folded)
		again.want(t, engine.Duplicate)
		for i, l := range mates {
			l.want(t, []engine.Outcome{engine.Dead, engine.Folded, engine.Duplicate}[i])
		}
	}
}
