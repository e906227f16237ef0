package profile

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"keyfold/engine"
)

// In whatever batches and order they come, the second vector is the sum of its events, each
// halved once in a half-life until the newest one.
//
// Promise(batching/second-vector): A profile's second vector is exact like the first one, in whatever
// order and windows its events come.
func TestShortIsTheDecayedSumOfItsEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultConfig()
		c.Dimensions = 8
		c.History = rapid.SampledFrom([]History{Mass, UnitMass}).Draw(t, "history")
		c.ShortHalfLife = rapid.SampledFrom([]time.Duration{10 * time.Second, time.Minute, 7 * 24 * time.Hour}).Draw(t, "half-life")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		steps := make([]Step, rapid.IntRange(1, 30).Draw(t, "events"))
		span := rapid.SampledFrom([]int64{1, 1000, 3_600_000, 40 * 24 * 3_600_000}).Draw(t, "span")
		newest := engine.Millis(0)
		for i := range steps {
			steps[i] = Step{randomUnit(r, 8), 0.3 + r.Float64(), engine.Millis(1 + r.Int64N(span))}
			newest = max(newest, steps[i].At)
		}
		var short Short
		updated := engine.Millis(0)
		for rest := steps; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			short = c.FoldShort(short, updated, rest[:n])
			for _, e := range rest[:n] {
				updated = max(updated, e.At)
			}
			rest = rest[n:]
		}
		sum, weight := make([]float64, 8), 0.0
		for _, e := range steps {
			left := e.Weight * math.Exp2(-float64(newest-e.At)/float64(c.ShortHalfLife.Milliseconds()))
			floats.AddScaled(sum, left, e.Vector)
			weight += left
		}
		mass := floats.Norm(sum, 2)
		if mass < 1e-6*weight {
			return
		}
		floats.Scale(1/mass, sum)
		if d := floats.Distance(short.Vector, sum, math.Inf(1)); d > 1e-9 || math.Abs(short.Mass-mass) > 1e-9 || short.HalfLife != c.ShortHalfLife {
			t.Fatalf("components differ by %g; mass %v, want %v; half-life %v", d, short.Mass, mass, short.HalfLife)
		}
	})
}

func randomUnit(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = r.NormFloat64()
	}
	floats.Scale(1/floats.Norm(v, 2), v)
	return v
}

// A second vector that begins beside a profile has the events since, as of the profile's
// newest one; what is too old to leave anything begins none.
func TestShortBeginsBesideAProfile(t *testing.T) {
	c := DefaultConfig()
	c.Dimensions, c.ShortHalfLife = 4, time.Minute
	late := Step{axis(0, 4), 0.5, 60_000}
	got := c.FoldShort(Short{}, 120_000, []Step{late})
	if want := (Short{axis(0, 4), 0.25, time.Minute}); !slices.Equal(got.Vector, want.Vector) || math.Abs(got.Mass-want.Mass) > 1e-15 || got.HalfLife != want.HalfLife {
		t.Errorf("a minute before the newest: %+v, want %+v", got, want)
	}
	if got := c.FoldShort(Short{}, day(30), []Step{late}); got.Vector != nil {
		t.Errorf("30 days before the newest: %+v, want none", got)
	}
	if got := c.FoldShort(Short{}, 0, []Step{late}); got.Mass != 0.5 {
		t.Errorf("the first event: mass %v", got.Mass)
	}
	c.ShortHalfLife = 0
	if got := c.FoldShort(Short{axis(0, 4), 1, time.Minute}, 1, []Step{late}); got.Vector != nil {
		t.Errorf("without the setting: %+v", got)
	}
}

func TestShortHalfLifeIsBounded(t *testing.T) {
	c := DefaultConfig()
	for life, ok := range map[time.Duration]bool{
		0: true, 10 * time.Second: true, time.Minute: true, 7 * 24 * time.Hour: true,
		9 * time.Second: false, 7*24*time.Hour + time.Second: false, -time.Minute: false, 10500 * time.Millisecond: false,
	} {
		c.ShortHalfLife = life
		if err := c.Validate(); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "ShortHalfLife is") {
			t.Errorf("%v: %v", life, err)
		}
	}
}

func BenchmarkFoldWithASecondVector(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	c := DefaultConfig()
	steps := make([]Step, 20)
	for i := range steps {
		steps[i] = Step{randomUnit(r, c.Dimensions), 0.5, engine.Millis(1000 * i)}
	}
	for name, life := range map[string]time.Duration{"off": 0, "on": time.Minute} {
		b.Run(name, func(b *testing.B) {
			c.ShortHalfLife = life
			s := State{randomUnit(r, c.Dimensions), 3, 0}
			short := Short{randomUnit(r, c.Dimensions), 1, life}
			for b.Loop() {
				c.FoldShort(short, s.Updated, steps)
				c.Fold(s, steps)
			}
		})
	}
}

// What is bought and returned at once leaves a second vector without mass, as one event after
// the other does: batches make no difference.
func TestShortWithoutMassInOneBatch(t *testing.T) {
	c := DefaultConfig()
	c.Dimensions, c.ShortHalfLife = 4, time.Minute
	bought, returned := Step{axis(0, 4), 1, 60_000}, Step{axis(0, 4), -1, 60_000}
	together := c.FoldShort(Short{}, 0, []Step{bought, returned})
	apart := c.FoldShort(c.FoldShort(Short{}, 0, []Step{bought}), 60_000, []Step{returned})
	if !slices.Equal(together.Vector, apart.Vector) || together.Mass != apart.Mass || together.HalfLife != apart.HalfLife {
		t.Errorf("together %+v, apart %+v", together, apart)
	}
}
