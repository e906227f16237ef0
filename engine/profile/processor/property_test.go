package processor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func drawEvents(t *rapid.T) []profile.Event {
	at := engine.Millis(1_700_000_000_000)
	n := 0
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) profile.Event {
		at += engine.Millis(rapid.SampledFrom([]int64{0, 0, 3, 700, 86_400_000 * 20}).Draw(t, "gap"))
		n++
		e := profile.Event{
			UserID:     int32(rapid.IntRange(1, 4).Draw(t, "user")),
			Type:       rapid.SampledFrom(profile.EventTypes()[:]).Draw(t, "type"),
			OccurredAt: at,
			MessageID:  fmt.Sprintf("%04d", n),
		}
		if e.Type.HasPhrase() {
			e.Phrase = rapid.SampledFrom([]string{"shoes", "hat"}).Draw(t, "phrase")
		} else {
			e.ProductID = int32(rapid.IntRange(1, 5).Draw(t, "product"))
		}
		e.Digest = profile.DigestOf(e.MessageID)
		return e
	}), 1, 40).Draw(t, "events")
}

// In mass: whatever the order, the batching, the copies, the number of workers
// and the store's failures, the profiles are those of the one-at-a-time
// reference, and every delivery is settled once.
//
// Promise(batching/second-vector)
func TestProfilesEqualTheReference(t *testing.T) {
	rapid.Check(t, profilesEqualTheReference)
}

func profilesEqualTheReference(t *rapid.T) {
	f := newFixture(t, func(c *processor.Config) {
		c.Pause, c.MaxPause = time.Microsecond, time.Microsecond
		c.CacheBytes = rapid.SampledFrom([]int64{0, 1500, 1 << 20}).Draw(t, "cache")
		c.ShortHalfLife = rapid.SampledFrom([]time.Duration{0, 10 * time.Second, 7 * 24 * time.Hour}).Draw(t, "second vector")
	})
	events := drawEvents(t)
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	copies := slices.Clone(events)
	for range rapid.IntRange(0, 10).Draw(t, "copies") {
		copies = append(copies, events[r.IntN(len(events))])
	}
	r.Shuffle(len(copies), func(i, j int) { copies[i], copies[j] = copies[j], copies[i] })
	f.ports.swap = failing(f, r)
	workers := []*processor.Engine{f.Engine, f.engine(t), f.engine(t)}

	var letters []*letter
	for rest := copies; len(rest) > 0; {
		n := min(len(rest), 1+r.IntN(8))
		groups := byUser(rest[:n])
		for _, g := range groups {
			letters = append(letters, g...)
		}
		workers[r.IntN(len(workers))].Apply(context.Background(), batches(groups))
		rest = rest[n:]
	}
	foldedOnce(t, letters, events)
	for user := int32(1); user <= 4; user++ {
		equalsReference(t, f, user, events)
	}
}

// failing swaps some writes, loses some answers, and lets some through.
func failing(f *fixture, r *rand.Rand) func(context.Context, []*profile.Profile) []error {
	return func(ctx context.Context, profiles []*profile.Profile) []error {
		switch r.IntN(6) {
		case 0:
			return slices.Repeat([]error{errors.New("not written")}, len(profiles))
		case 1:
			f.store.Swap(ctx, profiles)
			return slices.Repeat([]error{engine.ErrUnknown}, len(profiles))
		case 2: // the first ones were written, then the connection broke
			n := r.IntN(len(profiles))
			f.store.Swap(ctx, profiles[:n])
			return slices.Repeat([]error{engine.ErrUnknown}, len(profiles))
		default:
			return f.store.Swap(ctx, profiles)
		}
	}
}

func byUser(events []profile.Event) [][]*letter {
	var groups [][]*letter
	index := map[int32]int{}
	for _, e := range events {
		i, ok := index[e.UserID]
		if !ok {
			i = len(groups)
			index[e.UserID] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], &letter{event: e})
	}
	return groups
}

func batches(groups [][]*letter) []profile.Batch {
	all := make([]profile.Batch, len(groups))
	for i, g := range groups {
		all[i] = batch(g...)
	}
	return all
}

// foldedOnce checks that every delivery was settled once, and that of each
// event's copies at least one was folded and the others were duplicates. A copy
// that another worker folded, found after a write of unknown outcome over a
// stale cache, may count as folded too: whose write it was cannot be told, and
// the profile's event_count is exact either way.
func foldedOnce(t *rapid.T, letters []*letter, events []profile.Event) {
	folded := map[string]int{}
	for _, l := range letters {
		if len(l.verdicts) != 1 {
			t.Fatalf("%s was settled %d times", l.event.MessageID, len(l.verdicts))
		}
		switch l.verdicts[0].Outcome {
		case engine.Folded:
			folded[l.event.MessageID]++
		case engine.Duplicate:
		default:
			t.Fatalf("%s ended as %v", l.event.MessageID, l.verdicts[0])
		}
	}
	for _, e := range events {
		if folded[e.MessageID] < 1 {
			t.Fatalf("%s was folded %d times", e.MessageID, folded[e.MessageID])
		}
	}
}

func equalsReference(t *rapid.T, f *fixture, user int32, events []profile.Event) {
	var own []profile.Event
	for _, e := range events {
		if e.UserID == user {
			own = append(own, e)
		}
	}
	p := f.profile(t, user)
	if len(own) == 0 {
		if p != nil {
			t.Fatalf("user %d has a profile without events", user)
		}
		return
	}
	want := reference(f.config.Config, own)
	if want.Mass < 1e-3 {
		return // cancelled: outside the law
	}
	if d := floats.Distance(p.Vector, want.Vector, math.Inf(1)); d > 1e-9 {
		t.Fatalf("user %d: components differ by %g", user, d)
	}
	if law := f.config.Config; law.ShortHalfLife != 0 {
		law.Lambda = math.Ln2 * 24 / law.ShortHalfLife.Hours()
		short := reference(law, own)
		if d := floats.Distance(p.Short.Vector, short.Vector, math.Inf(1)); short.Mass >= 1e-3 && d > 1e-9 || math.Abs(p.Short.Mass-short.Mass) > 1e-9 {
			t.Fatalf("user %d: the second vector's components differ by %g; its mass is %v, want %v", user, d, p.Short.Mass, short.Mass)
		}
	} else if p.Short.Vector != nil {
		t.Fatalf("user %d has a second vector", user)
	}
	last := own[len(own)-1]
	if p.EventCount != int64(len(own)) || p.Updated != want.Updated || math.Abs(p.Mass-want.Mass) > 1e-9 ||
		p.LastID != last.MessageID || p.LastType != last.Type {
		t.Fatalf("user %d: %+v, want %d events, newest %+v, mass %v", user, p, len(own), last, want.Mass)
	}
}

// tb is what the fixture needs of a test, rapid's included.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}
