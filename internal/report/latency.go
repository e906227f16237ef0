package report

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies count how long something took. Scenarios count from when it was due, not from
// when it was begun: a generator that is held up adds to the figures what it did not ask
// for meanwhile, so that they need no correction for coordinated omission.
type Latencies struct{ *hdrhistogram.Histogram }

// longest is what a longer time is counted as.
const longest = 20 * time.Minute

// NewLatencies returns empty ones.
func NewLatencies() Latencies {
	return Latencies{hdrhistogram.New(1, longest.Microseconds(), 3)}
}

// Add counts one.
func (l Latencies) Add(took time.Duration) {
	_ = l.RecordValue(max(1, min(took, longest).Microseconds())) // it is in the range
}

// Seconds returns a percentile; 100 is the longest.
func (l Latencies) Seconds(percent float64) float64 {
	return float64(l.ValueAtQuantile(percent)) / 1e6
}

// Latency is how long something took.
type Latency struct {
	Name        string    `json:"name"`
	Count       int64     `json:"count"`
	P50         float64   `json:"p50_seconds"`
	P95         float64   `json:"p95_seconds"`
	P99         float64   `json:"p99_seconds"`
	P999        float64   `json:"p99_9_seconds"`
	Max         float64   `json:"max_seconds"`
	Percentiles []float64 `json:"percentiles_seconds"` // at [percents]
	Disturbed   bool      `json:"disturbed"`

	all Latencies
}

// percents are where the curve of a latency is drawn.
var percents = []float64{0, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9, 99.99, 100}

// Latency adds a histogram, or another run's to one.
func (r *Report) Latency(name string, l Latencies) {
	for _, old := range r.Latencies {
		if old.Name == name {
			old.all.Merge(l.Histogram)
			old.read()
			return
		}
	}
	added := &Latency{Name: name, Disturbed: r.Disturbed, all: NewLatencies()}
	added.all.Merge(l.Histogram)
	added.read()
	r.Latencies = append(r.Latencies, added)
}

func (l *Latency) read() {
	l.Count, l.Percentiles = l.all.TotalCount(), nil
	for _, p := range percents {
		l.Percentiles = append(l.Percentiles, l.all.Seconds(p))
	}
	l.P50, l.P95, l.P99, l.P999, l.Max = l.all.Seconds(50), l.all.Seconds(95), l.all.Seconds(99), l.all.Seconds(99.9), l.all.Seconds(100)
}

// Span writes seconds for people: "9.4 ms", "14.97 s".
func Span(seconds float64) string {
	if seconds < 1 {
		return amount(1000*seconds) + " ms"
	}
	return fmt.Sprintf("%.2f s", seconds)
}
