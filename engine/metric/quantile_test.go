package metric

import "testing"

// A quantile is of what came since the look before; above all buckets it is the highest.
func TestQuantile(t *testing.T) {
	series := func(one, ten, all float64) map[string]float64 {
		return map[string]float64{`h_bucket{le="1"}`: one, `h_bucket{le="10"}`: ten, `h_bucket{le="+Inf"}`: all, `other_bucket{le="1"}`: 99}
	}
	for _, c := range []struct {
		now, before map[string]float64
		want        float64 // 0: none
	}{
		{series(99, 99, 100), nil, 1},
		{series(98, 100, 100), nil, 10},
		{series(0, 0, 5), nil, 10},
		{series(99, 199, 199), series(99, 99, 99), 10},
		{series(99, 99, 99), series(99, 99, 99), 0},
		{series(0, 0, 0), nil, 0},
	} {
		got := Quantile(c.now, c.before, "h", 0.99)
		if c.want == 0 && got != nil || c.want != 0 && (got == nil || *got != c.want) {
			t.Errorf("of %v since %v: got %v, want %v", c.now, c.before, got, c.want)
		}
	}
}
