package profile

import (
	"math/rand/v2"
	"testing"

	"keyfold/engine"
)

func unitVectors(n, dimensions int, seed uint64) [][]float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	all := make([][]float64, n)
	for i := range all {
		raw := make([]float32, dimensions)
		for j := range raw {
			raw[j] = float32(r.NormFloat64())
		}
		all[i], _ = engine.Unit(raw, dimensions)
	}
	return all
}

// BenchmarkFold folds batches into a 1536-dimensional profile and reports
// events per second; "plain loop" is one pass per event that decays, adds and
// normalises, in plain Go.
func BenchmarkFold(b *testing.B) {
	const dimensions = 1536
	vectors := unitVectors(2, dimensions, 1) // both stay in the L1 cache beside the sum
	for _, batch := range []int{1, 5, 50, 500} {
		steps := make([]Step, batch)
		for i := range steps {
			steps[i] = Step{Vector: vectors[i%len(vectors)], Weight: 0.3, At: engine.Millis(1000 * i)}
		}
		start := State{Vector: unitVectors(1, dimensions, 2)[0], Mass: 3}
		for _, h := range []History{Mass, UnitMass} {
			c := DefaultConfig()
			c.History = h
			b.Run(string(h)+"/batch="+itoa(batch), func(b *testing.B) {
				for b.Loop() {
					c.Fold(start, steps)
				}
				perSecond(b, batch)
			})
		}
		b.Run("plain loop/batch="+itoa(batch), func(b *testing.B) {
			c := DefaultConfig()
			for b.Loop() {
				s := State{Vector: append([]float64(nil), start.Vector...), Mass: 3}
				for i := range steps {
					s = plainFold(c, s, steps[i])
				}
			}
			perSecond(b, batch)
		})
	}
}

func plainFold(c Config, s State, e Step) State {
	keep, add, updated := c.coefficients(s, e)
	var square float64
	for i := range s.Vector {
		s.Vector[i] = keep*s.Vector[i] + add*e.Vector[i]
		square += s.Vector[i] * s.Vector[i]
	}
	mass := sqrt(square)
	for i := range s.Vector {
		s.Vector[i] /= mass
	}
	return State{Vector: s.Vector, Mass: mass, Updated: updated}
}

func perSecond(b *testing.B, events int) {
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkDuplicates(b *testing.B) {
	for _, n := range []int{1, 5, 500} {
		for _, held := range []int{64, 4096, 65536} {
			b.Run(itoa(n)+" of "+itoa(held), func(b *testing.B) {
				applied := Applied{}.With(1, appliedIDs(0, held), 1, DefaultIDLimits())
				deliveries := make([]Delivery, n)
				for i := range deliveries {
					deliveries[i].Event.Digest = DigestOf("message " + itoa(held+i))
				}
				var s Dedup
				for b.Loop() {
					s.Duplicates(deliveries, applied)
				}
			})
		}
	}
}
