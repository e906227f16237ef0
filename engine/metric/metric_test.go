package metric

import (
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

func text(s *Set) string {
	var b strings.Builder
	s.WritePrometheus(&b)
	return b.String()
}

func TestSet(t *testing.T) {
	var s Set
	if got := text(&s); got != "" {
		t.Errorf("an empty set writes %q", got)
	}
	waiting, age := int64(0), 0.0
	s.OnWrite(func() { waiting, age = waiting+8388608, age+0.00000025 })
	s.Gauge("waiting_bytes", "What waits,\nin C:\\queue.", Int(func() int64 { return waiting }))
	s.Counter(`rows_total{outcome="sent"}`, "Rows by outcome.", func() int64 { return 1 << 62 })
	s.Counter(`rows_total{outcome="never"}`, "", func() int64 { return -1 })
	s.Gauge("age_seconds", "Age.", func() float64 { return age })
	s.Counter(`rows_total{outcome="refused"}`, "Rows by outcome.", func() int64 { return 0 })
	s.Gauge("unknown", "Nothing known.", func() float64 { return math.NaN() })
	s.Gauge("unsettled", "Below 0 for a moment.", Int(func() int64 { return -1 }))
	want := `# HELP age_seconds Age.
# TYPE age_seconds gauge
age_seconds 0.00000025
# HELP rows_total Rows by outcome.
# TYPE rows_total counter
rows_total{outcome="sent"} 4611686018427387904
rows_total{outcome="refused"} 0
# HELP unknown Nothing known.
# TYPE unknown gauge
# HELP unsettled Below 0 for a moment.
# TYPE unsettled gauge
unsettled 0
# HELP waiting_bytes What waits,\nin C:\\queue.
# TYPE waiting_bytes gauge
waiting_bytes 8388608
`
	if got := text(&s); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestRegisteringWrongly(t *testing.T) {
	zero := func() int64 { return 0 }
	for name, second := range map[string]func(*Set){
		"the same series":      func(s *Set) { s.Counter(`x_total{a="1"}`, "", zero) },
		"another help":         func(s *Set) { s.Counter(`x_total{a="2"}`, "Other.", zero) },
		"another type":         func(s *Set) { s.Gauge(`x_total{a="2"}`, "", Int(zero)) },
		"a family without any": func(s *Set) { s.Counter("y_total", "", zero) },
	} {
		func() {
			var s Set
			s.Counter(`x_total{a="1"}`, "Help.", zero)
			defer func() {
				if recover() == nil {
					t.Errorf("%s can be registered", name)
				}
			}()
			second(&s)
		}()
	}
}

// A bucket includes its bound, and counts all that is below.
func TestHistogram(t *testing.T) {
	h := NewHistogram(time.Millisecond, 2500*time.Microsecond, time.Second)
	for _, d := range []time.Duration{time.Millisecond, time.Millisecond + 1, time.Second, time.Hour} {
		h.Observe(d)
	}
	var s Set
	s.Histogram("x_seconds", "Durations.", h)
	want := `# HELP x_seconds Durations.
# TYPE x_seconds histogram
x_seconds_bucket{le="0.001"} 1
x_seconds_bucket{le="0.0025"} 2
x_seconds_bucket{le="1"} 3
x_seconds_bucket{le="+Inf"} 4
x_seconds_sum 3601.002000001
x_seconds_count 4
`
	if got := text(&s); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A worker that has started registers while others scrape. Under the race detector.
func TestRegisteringWhileOthersWrite(t *testing.T) {
	var s Set
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				s.WritePrometheus(io.Discard)
			}
		})
	}
	for _, label := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		s.OnWrite(func() {})
		s.Counter(`x_total{of="`+label+`"}`, "Help.", func() int64 { return 1 })
	}
	all.Wait()
	if n := strings.Count(text(&s), `"} 1`+"\n"); n != 26 {
		t.Errorf("%d series, want 26", n)
	}
}
