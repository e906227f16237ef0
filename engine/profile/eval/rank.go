package eval

import "math"

// tie is the difference, as a share of the largest score that there can be, below
// which two scores are equal. Rounding is a millionth of it.
const tie = 1e-9

// rank returns how many of the candidates have a score above the item's and how many
// an equal one, the item among them. Those that are met do not count.
func rank(scores []float64, item int32, met []int32, tolerance float64) (above, equal int) {
	high, low := scores[item]+tolerance, scores[item]-tolerance
	for _, x := range scores {
		a, b := 0, 0
		if x > high {
			a = 1
		}
		if x >= low {
			b = 1
		}
		above += a
		equal += b
	}
	for _, j := range met {
		if j == item {
			continue
		}
		if scores[j] > high {
			above--
		}
		if scores[j] >= low {
			equal--
		}
	}
	return above, equal - above
}

// farCutoff is the rank to which the second hit ratio and the reciprocal rank look.
const farCutoff = 100

// tally sums metrics up over questions.
type tally struct {
	questions float64
	hits      float64 // HR@K
	far       float64 // HR@100
	gain      float64 // nDCG@K
	inverse   float64 // MRR@100
}

func (t *tally) add(o *tally, weight float64) {
	t.questions += o.questions * weight
	t.hits += o.hits * weight
	t.far += o.far * weight
	t.gain += o.gain * weight
	t.inverse += o.inverse * weight
}

// metrics turns ranks into metrics. The sums over the first places are made once.
type metrics struct {
	cutoff  int
	far     int
	gain    []float64 // by number of places: the sum of their discounts, up to the cutoff
	inverse []float64 // by number of places: the sum of 1/place, up to far
}

func newMetrics(cutoff, far int) *metrics {
	m := &metrics{cutoff: cutoff, far: far, gain: []float64{0}, inverse: []float64{0}}
	for place := 1; place <= max(cutoff, far); place++ {
		gain, inverse := 0.0, 0.0
		if place <= cutoff {
			gain = 1 / math.Log2(float64(place)+1)
		}
		if place <= far {
			inverse = 1 / float64(place)
		}
		m.gain = append(m.gain, m.gain[place-1]+gain)
		m.inverse = append(m.inverse, m.inverse[place-1]+inverse)
	}
	return m
}

// of returns the expectation of each metric for an item that shares the places after
// the first `above` with the others of `equal`.
func (m *metrics) of(above, equal int) tally {
	between := func(sums []float64) float64 {
		last := len(sums) - 1
		return (sums[min(above+equal, last)] - sums[min(above, last)]) / float64(equal)
	}
	within := func(k int) float64 { return min(1, max(0, float64(k-above)/float64(equal))) }
	return tally{1, within(m.cutoff), within(m.far), between(m.gain), between(m.inverse)}
}
