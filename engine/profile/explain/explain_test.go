package explain_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/explain"
)

const (
	minute     = engine.Millis(60 * 1000)
	day        = 24 * 60 * minute
	dimensions = 12
)

func event(id string, t profile.EventType, at engine.Millis, vector ...float64) explain.Event {
	w, _ := profile.DefaultWeights().Of(t)
	return explain.Event{
		Event:  profile.Event{UserID: 17, Type: t, OccurredAt: at, MessageID: id, Digest: profile.DigestOf(id)},
		Weight: w, Vector: vector,
	}
}

// halving is a decay under which a weight is halved each day.
func halving(h profile.History) profile.Config {
	c := profile.DefaultConfig()
	c.Dimensions, c.Lambda, c.History = 2, math.Ln2, h
	return c
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-12 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Computed by hand: a view of 0.3 along x two days ago, a purchase of 1 along y today.
// The sum is (0.075, 1), m^2 = 1.005625; in UnitMass it is (0.25, 1), m^2 = 1.0625.
func TestSharesComputedByHand(t *testing.T) {
	events := []explain.Event{event("b", profile.ProductPurchase, 2*day, 0, 1), event("a", profile.ProductView, 0, 1, 0)}
	for history, square := range map[profile.History]float64{profile.Mass: 1.005625, profile.UnitMass: 1.0625} {
		c, m := halving(history), math.Sqrt(square)
		left := math.Sqrt(square-1) / m // the view's component of u
		p := &profile.Profile{History: history, Vector: []float64{left, 1 / m}, Mass: m, Updated: 2 * day}
		x := explain.Of(c, p, events)
		if x.Parts[0].Event.MessageID != "a" || x.Known != 2 || x.Distance > 1e-15 {
			t.Fatalf("%s: %+v", history, x)
		}
		near(t, "the view's share", x.Parts[0].Share, (square-1)/square)
		near(t, "the purchase's share", x.Parts[1].Share, 1/square)
		near(t, "what is left of the view", x.Parts[0].Left, math.Sqrt(square-1)/0.3)
		near(t, "the remainder", x.RemainderShare, 0)
		diagonal := []float64{math.Sqrt2 / 2, math.Sqrt2 / 2}
		s := x.Score(diagonal)
		near(t, "the score", s.Cosine, (math.Sqrt(square-1)+1)/m*math.Sqrt2/2)
		near(t, "the purchase's part of it", s.Parts[0].Score, 1/m*math.Sqrt2/2)
		near(t, "the view's part of it", s.Parts[1].Score, math.Sqrt(square-1)/m*math.Sqrt2/2)
		without := x.Without(func(e *explain.Event) bool { return e.Type == profile.ProductPurchase })
		near(t, "x without the purchase", without.Vector[0], 1)
		// With a half-life of two days twice as much is left of the view.
		if history == profile.Mass {
			longer := x.WithDecay(math.Ln2 / 2)
			near(t, "x/y with a longer half-life", longer.Vector[0]/longer.Vector[1], 0.15)
		}
	}
}

// user is a generated user: what a worker made of the events.
type user struct {
	config profile.Config
	stored *profile.Profile
	events []explain.Event // in the order in which they were folded
}

// generate lets a worker fold windows of events, some of which arrive late.
func generate(r *rand.Rand, history profile.History, latest engine.Millis) user {
	c := profile.DefaultConfig()
	c.Dimensions, c.History, c.Lambda = dimensions, history, []float64{0.023, 0, 3}[r.IntN(3)]
	u := user{config: c, stored: &profile.Profile{UserID: 17, Version: 1, History: history}}
	vectors := make([][]float64, 1+r.IntN(8))
	for i := range vectors {
		vectors[i] = make([]float64, dimensions)
		for k := range vectors[i] {
			vectors[i][k] = r.NormFloat64() + 1
		}
		floats.Scale(1/floats.Norm(vectors[i], 2), vectors[i])
	}
	at, state, applied := engine.Millis(1_700_000_000_000), profile.State{}, profile.Applied{}
	for range 1 + r.IntN(12) {
		at += engine.Millis(r.Int64N(int64([]engine.Millis{minute, 3 * day}[r.IntN(2)])))
		var window []explain.Event
		for range 1 + r.IntN(6) {
			at += engine.Millis(r.Int64N(1000))
			late := engine.Millis(r.Int64N(3)) * engine.Millis(r.Int64N(int64(latest)))
			id := fmt.Sprint(len(u.events), "-", len(window))
			window = append(window, event(id, profile.EventTypes()[r.IntN(4)], at-late, vectors[r.IntN(len(vectors))]...))
		}
		slices.SortFunc(window, func(a, b explain.Event) int { return a.Compare(&b.Event) })
		var steps []profile.Step
		var ids []profile.AppliedID
		for _, e := range window {
			steps = append(steps, profile.Step{Vector: e.Vector, Weight: e.Weight, At: e.OccurredAt})
			ids = append(ids, e.Digest.ID())
		}
		state, applied = c.Fold(state, steps), applied.With(r.Uint64(), ids, at, c.IDs)
		u.events = append(u.events, window...)
	}
	u.stored.Vector, u.stored.Mass, u.stored.Updated, u.stored.Applied = state.Vector, state.Mass, state.Updated, applied
	return u
}

// users checks a thousand users in both histories; the histories come in any order.
func users(t *testing.T, latest engine.Millis, check func(t *testing.T, r *rand.Rand, u user)) {
	for _, history := range []profile.History{profile.Mass, profile.UnitMass} {
		t.Run(string(history), func(t *testing.T) {
			for seed := range uint64(1000) {
				r := rand.New(rand.NewPCG(seed, 1))
				check(t, r, generate(r, history, latest))
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// sums checks that all shares are 1, and all parts of a score its cosine.
func sums(t *testing.T, x *explain.Explanation, u user, y []float64) {
	t.Helper()
	all, score := x.RemainderShare, x.Score(y)
	for _, p := range x.Parts {
		all += p.Share
	}
	if math.Abs(all-1) > 1e-9 {
		t.Errorf("all shares are %v", all)
	}
	total := score.Remainder
	for _, p := range score.Parts {
		total += p.Score
	}
	if cosine := floats.Dot(u.stored.Vector, y); math.Abs(total-cosine) > 1e-9 || score.Cosine != cosine {
		t.Errorf("the parts of a score are %v, the cosine %v", total, cosine)
	}
	for _, by := range [][]explain.Sum{
		x.Sessions(), x.By(func(e *explain.Event) string { return e.Type.String() }), x.By(explain.Age(u.stored.Updated)),
	} {
		all, events := x.RemainderShare, 0
		for _, s := range by {
			all, events = all+s.Share, events+s.Events
		}
		if math.Abs(all-1) > 1e-9 || events != x.Known {
			t.Errorf("sums of %d of %d events: %v", events, x.Known, all)
		}
	}
}

// A whole history in any order, with late events: it makes the stored profile, in both
// histories, and a refold without an event is the fold of the others.
func TestWholeHistories(t *testing.T) {
	users(t, day, func(t *testing.T, r *rand.Rand, u user) {
		shuffled := slices.Clone(u.events)
		r.Shuffle(len(shuffled), func(i, k int) { shuffled[i], shuffled[k] = shuffled[k], shuffled[i] })
		x := explain.Of(u.config, u.stored, shuffled)
		if x.Distance > 1e-9 || x.Known != len(u.events) || math.Abs(x.RemainderShare) > 1e-9 {
			t.Errorf("%d events, distance %v, remainder %v", x.Known, x.Distance, x.RemainderShare)
		}
		sums(t, x, u, u.events[0].Vector)
		gone, want := r.IntN(len(u.events)), profile.State{}
		for i, e := range u.events {
			if i != gone {
				want = u.config.FoldOne(want, profile.Step{Vector: e.Vector, Weight: e.Weight, At: e.OccurredAt})
			}
		}
		got := x.Without(func(e *explain.Event) bool { return e.MessageID == u.events[gone].MessageID })
		if (got.Vector == nil) != (want.Vector == nil) || got.Vector != nil && floats.Distance(got.Vector, want.Vector, math.Inf(1)) > 1e-9 {
			t.Errorf("without event %d: %v, want %v", gone, got, want)
		}
	})
}

func never(*explain.Event) bool { return false }

// Of a history without its oldest events, each that is left counts what it counts in the
// whole one, and the remainder is what the others count. In UnitMass several pasts may
// lead to one profile: the remainder is one of them.
func TestPrunedHistories(t *testing.T) {
	lost := 0
	users(t, 1, func(t *testing.T, r *rand.Rand, u user) {
		whole := explain.Of(u.config, u.stored, u.events)
		cut := r.IntN(len(u.events) + 1)
		x := explain.Of(u.config, u.stored, u.events[cut:])
		sums(t, x, u, u.events[0].Vector)
		if again := x.Without(never); again.Vector == nil || floats.Distance(again.Vector, u.stored.Vector, math.Inf(1)) > 1e-9 {
			lost++
		}
		if u.stored.History == profile.UnitMass {
			return
		}
		gone := make([]float64, dimensions)
		for _, p := range whole.Parts[:cut] {
			floats.AddScaled(gone, p.Coefficient, p.Event.Vector)
		}
		if floats.Distance(gone, x.Remainder, math.Inf(1)) > 1e-9 {
			t.Errorf("without the %d oldest events the remainder is %v, want %v", cut, x.Remainder, gone)
		}
		for i, p := range x.Parts {
			near(t, "a share", p.Share, whole.Parts[cut+i].Share)
		}
	})
	if lost > 10 { // under a half-life of 6 h some have no such past that is found
		t.Errorf("of 2,000 profiles %d are not made by their remainder and what is known", lost)
	}
}

// Where nothing is known, all is remainder: of an empty history, and of events that were
// not folded or have no vector.
func TestNothingKnown(t *testing.T) {
	users(t, day, func(t *testing.T, r *rand.Rand, u user) {
		for i := range u.events {
			if i%2 == 0 {
				u.events[i].State = "pending"
			} else {
				u.events[i].Vector = nil
			}
		}
		for _, events := range [][]explain.Event{nil, u.events} {
			x := explain.Of(u.config, u.stored, events)
			if x.Known != 0 || math.Abs(x.RemainderShare-1) > 1e-12 || len(x.Parts) != len(events) || len(x.Sessions()) != 0 {
				t.Errorf("%+v", x)
			}
			sums(t, x, u, u.stored.Vector)
		}
	})
}

// A sum that vanished has no direction to have shares in.
func TestVanishedSum(t *testing.T) {
	for _, history := range []profile.History{profile.Mass, profile.UnitMass} {
		c := halving(history)
		events := []explain.Event{event("a", profile.ProductPurchase, 5, 1, 0), event("b", profile.ProductPurchase, 5, -1, 0)}
		x := explain.Of(c, &profile.Profile{History: history, Vector: []float64{1, 0}, Updated: 5}, events)
		if x.RemainderShare != 1 || x.Parts[0].Share != 0 || x.Score([]float64{1, 0}).Remainder != 1 {
			t.Errorf("%s: %+v", history, x)
		}
		// The next event begins anew, or is added to the vector that the law kept.
		events = append(events, event("c", profile.ProductView, 5, 0, 1))
		var state profile.State
		for _, e := range events {
			state = c.FoldOne(state, profile.Step{Vector: e.Vector, Weight: e.Weight, At: e.OccurredAt})
		}
		p := &profile.Profile{History: history, Vector: state.Vector, Mass: state.Mass, Updated: state.Updated}
		x = explain.Of(c, p, events)
		if x.Distance > 1e-12 || math.Abs(x.RemainderShare) > 1e-12 || x.Parts[1].Share != 0 {
			t.Errorf("%s: %+v", history, x)
		}
	}
}

func TestSessionsAndStates(t *testing.T) {
	c := halving(profile.Mass)
	at := engine.Millis(time.Date(2026, 3, 29, 0, 45, 0, 0, time.UTC).UnixMilli())
	events := []explain.Event{
		event("a", profile.ProductView, at, 1, 0), event("b", profile.ProductView, at+30*minute, 0, 1),
		event("c", profile.Search, at+61*minute, 1, 0), event("d", profile.Search, at+62*minute, 1, 0),
	}
	events[3].State = "product_missing"
	var steps []profile.Step
	for _, e := range events[:3] {
		steps = append(steps, profile.Step{Vector: e.Vector, Weight: e.Weight, At: e.OccurredAt})
	}
	state := c.Fold(profile.State{}, steps)
	p := &profile.Profile{History: profile.Mass, Vector: state.Vector, Mass: state.Mass, Updated: state.Updated}
	x := explain.Of(c, p, events)
	sessions := x.Sessions()
	if len(sessions) != 2 || sessions[0].Events != 1 || sessions[1].Events != 2 || sessions[1].Until-sessions[1].From != 30*minute {
		t.Errorf("%+v", sessions)
	}
	if x.Known != 3 || x.Parts[3].Share != 0 || x.Parts[3].Event.State != "product_missing" || x.Distance > 1e-12 {
		t.Errorf("%+v", x)
	}
}

func BenchmarkTenThousandEvents(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	vectors := make([][]float64, 500)
	for i := range vectors {
		vectors[i] = make([]float64, 1536)
		for k := range vectors[i] {
			vectors[i][k] = r.NormFloat64() + 0.3
		}
		floats.Scale(1/floats.Norm(vectors[i], 2), vectors[i])
	}
	for _, history := range []profile.History{profile.Mass, profile.UnitMass} {
		c := profile.DefaultConfig()
		c.History = history
		var events []explain.Event
		var steps []profile.Step
		for i := range 10_000 {
			e := event(fmt.Sprint(i), profile.EventTypes()[i%4], engine.Millis(i)*minute, vectors[r.IntN(len(vectors))]...)
			events, steps = append(events, e), append(steps, profile.Step{Vector: e.Vector, Weight: e.Weight, At: e.OccurredAt})
		}
		state := c.Fold(profile.State{}, steps)
		p := &profile.Profile{History: history, Vector: state.Vector, Mass: state.Mass, Updated: state.Updated}
		b.Run(string(history), func(b *testing.B) {
			for b.Loop() {
				if x := explain.Of(c, p, events); x.Distance > 1e-9 {
					b.Fatal(x.Distance)
				}
			}
		})
	}
}
