package metric

import (
	"math"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	h := NewHistogram(time.Second, 2*time.Second, 5*time.Second)
	if got := h.Quantile(0.99); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for range 98 {
		h.Observe(time.Second / 2)
	}
	h.Observe(3 * time.Second)
	h.Observe(time.Minute)
	for q, want := range map[float64]time.Duration{0.5: time.Second, 0.98: time.Second, 0.99: 5 * time.Second, 1: math.MaxInt64} {
		if got := h.Quantile(q); got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
}
