package profile

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"keyfold/engine"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

func itoa(n int) string              { return strconv.Itoa(n) }
func sqrt(x float64) float64         { return math.Sqrt(x) }
func day(days float64) engine.Millis { return engine.Millis(days * 24 * 3600 * 1000) }

func axis(i, dimensions int) []float64 {
	v := make([]float64, dimensions)
	v[i] = 1
	return v
}

// An event's share in the profile after it aged: user story 3.
func TestDecayedShareOfAnEvent(t *testing.T) {
	c := DefaultConfig()
	for _, tc := range []struct {
		days float64
		want float64
	}{{7, 0.85}, {30, 0.50}, {90, 0.13}} {
		old := Step{Vector: axis(0, 8), Weight: 1, At: 0}
		fresh := Step{Vector: axis(1, 8), Weight: 1, At: day(tc.days)}
		got := c.Fold(State{}, []Step{old, fresh})
		share := got.Vector[0] / got.Vector[1]
		if math.Abs(share-tc.want) > 0.005 {
			t.Errorf("an event %v days old counts %.4f of a fresh one, want %.2f", tc.days, share, tc.want)
		}
		// The share must not depend on what came in between.
		between := []Step{old}
		for d := 1.0; d < tc.days; d++ {
			between = append(between, Step{Vector: axis(2, 8), Weight: 0.3, At: day(d)})
		}
		got = c.Fold(State{}, append(between, fresh))
		if other := got.Vector[0] / got.Vector[1]; math.Abs(other-share) > 1e-12 {
			t.Errorf("with events in between it counts %.6f instead of %.6f", other, share)
		}
	}
}

// The published formula's weights of four views 90, 30, 7 and 0 days old.
func TestUnitMassWeighsAsPublished(t *testing.T) {
	c := DefaultConfig()
	c.History = UnitMass
	var s State
	for i, age := range []float64{90, 30, 7, 0} {
		s = c.FoldOne(s, Step{Vector: axis(i, 8), Weight: 0.3, At: day(90 - age)})
	}
	for i, want := range []float64{1.63, 1.94, 1.29, 1.00} {
		if got := s.Vector[i] / s.Vector[3]; math.Abs(got-want) > 0.006 {
			t.Errorf("view %d counts %.3f, want %.2f", i, got, want)
		}
	}
}

func TestFoldRows(t *testing.T) {
	c := DefaultConfig()
	x, y := axis(0, 4), axis(1, 4)
	minus := []float64{-1, 0, 0, 0}
	half := math.Exp(-0.023 * 30)
	for _, tc := range []struct {
		name  string
		state State
		step  Step
		want  State
	}{
		{"first event", State{}, Step{x, 0.5, 10}, State{x, 0.5, 10}},
		{"newer", State{x, 2, 0}, Step{x, 0.3, day(30)}, State{x, 2*half + 0.3, day(30)}},
		{"same instant", State{x, 2, 5}, Step{x, 0.3, 5}, State{x, 2.3, 5}},
		{"late", State{x, 2, day(30)}, Step{x, 0.5, 0}, State{x, 2 + 0.5*half, day(30)}},
		{"cancelled", State{x, 0.5, 3}, Step{minus, 0.5, 3}, State{x, 0, 3}},
		{"cancelled by a late one", State{x, 0.5 * half, day(30)}, Step{minus, 0.5, 0}, State{x, 0, day(30)}},
		{"after a cancellation", State{x, 0, 3}, Step{y, 0.7, 4}, State{y, 0.7, 4}},
		{"first event against", State{}, Step{x, -0.5, 10}, State{minus, 0.5, 10}},
		{"against", State{x, 2, 5}, Step{x, -0.3, 5}, State{x, 1.7, 5}},
		{"taken back", State{x, 0.5, 3}, Step{x, -0.5, 3}, State{x, 0, 3}},
		{"more than taken back", State{x, 0.5, 3}, Step{x, -0.7, 3}, State{minus, 0.2, 3}},
		{"ages ago", State{x, 1, -62135596800000}, Step{y, 0.7, 4}, State{y, 0.7, 4}},
	} {
		for name, got := range map[string]State{
			"FoldOne": c.FoldOne(tc.state, tc.step),
			"Fold":    c.Fold(tc.state, []Step{tc.step}),
		} {
			if d := floats.Distance(got.Vector, tc.want.Vector, 2); d > 1e-12 ||
				math.Abs(got.Mass-tc.want.Mass) > 1e-12 || got.Updated != tc.want.Updated {
				t.Errorf("%s, %s: got %+v, want %+v", tc.name, name, got, tc.want)
			}
		}
	}
}

func TestFoldLeavesItsInputAlone(t *testing.T) {
	for _, h := range []History{Mass, UnitMass} {
		c := DefaultConfig()
		c.History = h
		v := unitVectors(3, 16, 4)
		before := []([]float64){slices.Clone(v[0]), slices.Clone(v[1]), slices.Clone(v[2])}
		got := c.Fold(State{v[0], 1, 0}, []Step{{v[1], 0.3, 1}, {v[2], 0.3, 2}})
		got.Vector[0] = 99
		for i := range v {
			if !slices.Equal(v[i], before[i]) {
				t.Errorf("%s: vector %d was changed", h, i)
			}
		}
	}
}

// steps draws events whose vectors lean on each other, also against each other,
// with ties and gaps from milliseconds to years.
func drawSteps(t *rapid.T, dimensions int) []Step {
	base := unitVectors(6, dimensions, rapid.Uint64Range(0, 50).Draw(t, "vectors"))
	at := engine.Millis(1_700_000_000_000)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Step {
		at += engine.Millis(rapid.SampledFrom([]int64{0, 0, 1, 40, 5_000, 86_400_000, 40 * 86_400_000, 900 * 86_400_000}).Draw(t, "gap"))
		v := base[rapid.IntRange(0, len(base)-1).Draw(t, "vector")]
		if rapid.IntRange(0, 9).Draw(t, "against") == 0 {
			v = slices.Clone(v)
			floats.Scale(-1, v)
		}
		return Step{v, rapid.SampledFrom([]float64{0.3, 0.5, 0.7, 1, -0.4, -1}).Draw(t, "weight"), at}
	}), 1, 40).Draw(t, "steps")
}

// decayed returns the sum of the sizes of the steps' weights at the newest one's time.
func decayed(c Config, steps []Step) float64 {
	newest := slices.MaxFunc(steps, func(a, b Step) int { return int(a.At - b.At) }).At
	var sum float64
	for _, s := range steps {
		sum += math.Abs(s.Weight) * c.Decay(s.At.Days(newest))
	}
	return sum
}

func maxDifference(a, b []float64) float64 {
	return floats.Distance(a, b, math.Inf(1))
}

// The law: in Mass any order and any batching gives the one-at-a-time result.
func TestMassIsFreeOfOrderAndBatching(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultConfig()
		steps := drawSteps(t, 24)
		want := State{}
		for _, s := range steps {
			want = c.FoldOne(want, s)
		}
		if want.Mass < 1e-6*decayed(c, steps) || want.Mass < 1e-6 {
			return // cancelled: outside the law
		}
		shuffled := slices.Clone(steps)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)).
			Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		got := State{}
		for len(shuffled) > 0 {
			n := rapid.IntRange(1, len(shuffled)).Draw(t, "batch")
			got = c.Fold(got, shuffled[:n])
			shuffled = shuffled[n:]
		}
		check(t, got, want)
	})
}

// In UnitMass the same holds for ordered input, in any batching.
func TestUnitMassIsFreeOfBatching(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultConfig()
		c.History = UnitMass
		steps := drawSteps(t, 24)
		want, got := State{}, State{}
		for i, s := range steps {
			next := c.FoldOne(want, s)
			if i > 0 && next.Mass < 1e-4 {
				return // cancelled: outside the law
			}
			want = next
		}
		for rest := steps; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			got = c.Fold(got, rest[:n])
			rest = rest[n:]
		}
		check(t, got, want)
	})
}

func check(t *rapid.T, got, want State) {
	t.Helper()
	if d := maxDifference(got.Vector, want.Vector); d > 1e-9 {
		t.Fatalf("components differ by %g", d)
	}
	if math.Abs(got.Mass-want.Mass) > 1e-9*max(1, want.Mass) || got.Updated != want.Updated {
		t.Fatalf("got mass %v at %v, want %v at %v", got.Mass, got.Updated, want.Mass, want.Updated)
	}
	if n := length(got.Vector); math.Abs(n-1) > 1e-12 {
		t.Fatalf("profile has length %v", n)
	}
}

// A batch that cancels out on its way still ends where the law ends.
func TestFoldThroughCancellation(t *testing.T) {
	for _, h := range []History{Mass, UnitMass} {
		c := DefaultConfig()
		c.History = h
		x, y, minus := axis(0, 4), axis(1, 4), []float64{-1, 0, 0, 0}
		for _, steps := range [][]Step{
			{{x, 0.5, 1}, {minus, 0.5, 1}},
			{{x, 0.5, 1}, {minus, 0.5, 1}, {y, 0.3, 2}},
			{{x, 1, 1}, {minus, 1, 1}, {minus, 1, 1}},
			{{y, 1, 0}, {x, 1, 1}, {minus, 1, 1}, {y, 0.3, 9}},
		} {
			want := State{}
			for _, s := range steps {
				want = c.FoldOne(want, s)
			}
			got := c.Fold(State{}, steps)
			if maxDifference(got.Vector, want.Vector) > 1e-9 || math.Abs(got.Mass-want.Mass) > 1e-9 {
				t.Errorf("%s: got %v, want %v", h, got, want)
			}
		}
	}
}

func TestFoldOfNothing(t *testing.T) {
	s := State{Vector: axis(0, 4), Mass: 2, Updated: 7}
	if got := DefaultConfig().Fold(s, nil); got.Mass != 2 || got.Updated != 7 {
		t.Errorf("got %+v", got)
	}
}
