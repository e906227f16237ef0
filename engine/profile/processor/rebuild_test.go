package processor_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/testserver/must"
	"keyfold/proof/oracle"
)

// history yields letters in folding order.
func history(inFlight bool, letters ...*letter) iter.Seq2[processor.HistoryEvent, error] {
	sorted := slices.Clone(letters)
	slices.SortFunc(sorted, func(a, b *letter) int {
		if a.event.Before(&b.event) {
			return -1
		}
		return 1
	})
	return func(yield func(processor.HistoryEvent, error) bool) {
		for _, l := range sorted {
			if !yield(processor.HistoryEvent{Event: l.event, InFlight: inFlight}, nil) {
				return
			}
		}
	}
}

// Made anew, a profile is what folding its events one at a time makes of them,
// in both histories, whatever it was before; and every event that comes again
// afterwards is known.
//
// Promise(rebuild/exact)
func TestRebuildEqualsTheReference(t *testing.T) {
	for _, kept := range []profile.History{profile.Mass, profile.UnitMass} {
		t.Run(string(kept), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				f := newFixture(rt, func(c *processor.Config) {
					c.History, c.ShortHalfLife = kept, rapid.SampledFrom([]time.Duration{0, time.Minute, 48 * time.Hour}).Draw(rt, "second vector")
				})
				letters := make([]*letter, rapid.IntRange(1, 60).Draw(rt, "events"))
				for i := range letters {
					at := engine.Millis(rapid.Int64Range(1, 200*24*3600_000).Draw(rt, "at"))
					letters[i] = view(1, fmt.Sprint("id ", i), int32(rapid.IntRange(1, 9).Draw(rt, "product")), at)
				}
				folded := rapid.IntRange(0, len(letters)).Draw(rt, "folded before")
				if folded > 0 {
					f.apply(batch(letters[:folded]...))
				}
				old := f.profile(rt, 1)
				r, err := f.Rebuild(context.Background(), 1, old, history(rapid.Bool().Draw(rt, "inFlight"), letters...))
				must.OK(rt, err)
				sameAsReference(rt, f, r.Profile, letters)
				must.OK(rt, f.store.Swap(context.Background(), []*profile.Profile{r.Profile})[0])
				later := f.engine(rt) // another worker, whose cache knows nothing
				again := make([]*letter, len(letters))
				for i, l := range letters {
					again[i] = &letter{event: l.event}
				}
				later.Apply(context.Background(), []profile.Batch{batch(again...)})
				for _, l := range again {
					l.want(rt, engine.Duplicate)
				}
			})
		})
	}
}

func sameAsReference(t tb, f *fixture, p *profile.Profile, letters []*letter) {
	t.Helper()
	var state, short profile.State
	var last profile.Event
	law := f.config
	law.History, law.Lambda = profile.Mass, math.Ln2*24/law.ShortHalfLife.Hours()
	for past := range history(false, letters...) {
		last = past.Event
		step := profile.Step{
			Vector: vectorOf(fmt.Sprint("product ", last.ProductID)), Weight: oracle.Weight(last.Type), At: last.OccurredAt,
		}
		state = f.config.FoldOne(state, step)
		if law.ShortHalfLife != 0 {
			short = law.FoldOne(short, step)
		}
	}
	if len(p.Short.Vector) != len(short.Vector) || p.Short.HalfLife != law.ShortHalfLife {
		t.Fatalf("a second vector of %d components with the half-life %v", len(p.Short.Vector), p.Short.HalfLife)
	}
	if short.Vector != nil && floats.Distance(p.Short.Vector, short.Vector, math.Inf(1)) > 1e-9 {
		t.Fatal("the second vector differs")
	}
	if p.EventCount != int64(len(letters)) || p.LastID != last.MessageID || p.LastType != last.Type || p.Updated != last.OccurredAt {
		t.Fatalf("%d events, last %s at %d; want %d, %s at %d", p.EventCount, p.LastID, p.Updated, len(letters), last.MessageID, last.OccurredAt)
	}
	if d := floats.Distance(p.Vector, state.Vector, math.Inf(1)); d > 1e-9 {
		t.Fatalf("components differ by %g", d)
	}
	if d := math.Abs(p.Mass - state.Mass); d > 1e-9 {
		t.Fatalf("mass differs by %g", d)
	}
}

func TestRebuildLeavesOutWhatCannotBeFolded(t *testing.T) {
	f := newFixture(t)
	f.ports.vector = func(key string) (engine.Resolved, bool) {
		switch key {
		case "product 7":
			return engine.Resolved{Err: engine.ErrMissing}, true
		case "product 8":
			return engine.Resolved{Err: engine.PermanentError("not_finite", errors.New("NaN"))}, true
		}
		return engine.Resolved{}, false
	}
	good := view(1, "a", 1, 1)
	r, err := f.Rebuild(t.Context(), 1, nil, history(false, good, view(1, "b", 7, 2), view(1, "c", 8, 3)))
	if err != nil || r.Missing != 1 || r.Dead != 1 || r.Profile.Version != 1 || len(r.Profile.Applied.IDs) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	sameAsReference(t, f, r.Profile, []*letter{good})
	if r, err = f.Rebuild(t.Context(), 1, nil, history(false, view(1, "b", 7, 2))); err != nil || r.Profile != nil {
		t.Fatalf("%+v, %v", r, err)
	}
}

// The epoch is no time that a history begins at.
func TestRebuildOfAHistoryBefore1970(t *testing.T) {
	f := newFixture(t)
	early, late := view(1, "a", 1, -27_000_000_000), view(1, "b", 2, 1)
	r, err := f.Rebuild(t.Context(), 1, nil, history(false, early, late))
	if err != nil || r.Profile.EventCount != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Promise(rebuild/refused): A rebuild of a pruned history is refused with the cure; an erased user
// stays erased.
func TestRebuildRefuses(t *testing.T) {
	f := newFixture(t)
	if _, err := f.Rebuild(t.Context(), 1, &profile.Profile{UserID: 1, Version: 3, ErasedAt: 5}, history(false)); !errors.Is(err, processor.ErrErased) {
		t.Errorf("erased: %v", err)
	}
	f.config.IDs.Keep, f.config.IDs.Max = 100, 100
	f.Engine = f.engine(t)
	many := make([]*letter, f.config.IDs.Max+1)
	for i := range many {
		many[i] = view(1, fmt.Sprintf("id %05d", i), 1, 1)
	}
	if _, err := f.Rebuild(t.Context(), 1, nil, history(true, many...)); !errors.Is(err, processor.ErrInFlight) {
		t.Errorf("inFlight: %v", err)
	}
	// What is not likely to come again does not refuse; the floor tells copies of
	// what found no room from new events.
	r, err := f.Rebuild(t.Context(), 1, nil, history(false, many...))
	if err != nil || len(r.Profile.Applied.IDs) != 100 || r.Profile.Applied.IDs[0] == many[0].event.Digest.ID() {
		t.Errorf("%+v, %v", r, err)
	}
	if floor := r.Profile.Applied.Floor; floor != profile.Undated {
		t.Errorf("the floor is %d", floor)
	}
	if r, err = f.Rebuild(t.Context(), 1, nil, history(false, many[1:]...)); err != nil || r.Profile.Applied.Floor != 0 {
		t.Errorf("with room for all: floor %d, %v", r.Profile.Applied.Floor, err)
	}
	down := errors.New("no route to host")
	f.ports.vector = func(string) (engine.Resolved, bool) { return engine.Resolved{Err: down}, true }
	if _, err := f.Rebuild(t.Context(), 1, nil, history(false, view(1, "a", 1, 1))); !errors.Is(err, down) {
		t.Errorf("catalogue away: %v", err)
	}
	f.ports.vector = nil
	backwards := func(yield func(processor.HistoryEvent, error) bool) {
		_ = yield(processor.HistoryEvent{Event: view(1, "a", 1, 5).event}, nil) && yield(processor.HistoryEvent{Event: view(1, "b", 1, 4).event}, nil)
	}
	if _, err := f.Rebuild(t.Context(), 1, nil, backwards); err == nil {
		t.Error("a history out of order was folded")
	}
}

// A second vector of another half-life is made anew, and goes where the settings have none.
func TestRebuildChangesTheSecondVector(t *testing.T) {
	f := newFixture(t, func(c *processor.Config) { c.ShortHalfLife = time.Minute })
	letters := []*letter{view(1, "a", 1, 1_000), view(1, "b", 2, 61_000)}
	f.apply(batch(letters...))
	for _, life := range []time.Duration{time.Hour, 0, time.Minute} {
		f.config.ShortHalfLife = life
		old := f.profile(t, 1)
		r, err := f.engine(t).Rebuild(t.Context(), 1, old, history(false, letters...))
		must.OK(t, err)
		sameAsReference(t, f, r.Profile, letters)
		if r.Profile.DropShort != (life == 0) {
			t.Errorf("half-life %v: the old second vector goes: %v", life, r.Profile.DropShort)
		}
		must.OK(t, f.store.Swap(t.Context(), []*profile.Profile{r.Profile})[0])
	}
	// What an earlier version left of one goes too: it is not read.
	f.config.ShortHalfLife = 0
	old := f.profile(t, 1)
	old.Short = profile.Short{}
	if r, err := f.engine(t).Rebuild(t.Context(), 1, old, history(false, letters...)); err != nil || !r.Profile.DropShort {
		t.Errorf("%+v, %v", r, err)
	}
}

// A worker that begins second vectors counts those beside a profile.
func TestSecondVectorBeginsBesideAProfile(t *testing.T) {
	f := newFixture(t)
	f.apply(batch(view(1, "a", 1, 1_000)))
	f.config.ShortHalfLife = time.Minute
	worker := f.engine(t)
	worker.Apply(t.Context(), []profile.Batch{batch(view(1, "b", 2, 61_000)), batch(view(2, "c", 3, 61_000))})
	worker.Apply(t.Context(), []profile.Batch{batch(view(1, "d", 2, 62_000))})
	if n := worker.Stats().Begun.Load(); n != 1 {
		t.Errorf("%d second vectors began beside a profile, want 1", n)
	}
	if p := f.profile(t, 1); p.EventCount != 3 || math.Abs(floats.Dot(p.Short.Vector, vectorOf("product 2"))-1) > 1e-9 {
		t.Errorf("%d events; the second vector is not that of what came since: %v", p.EventCount, p.Short)
	}
}
