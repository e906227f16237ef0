// Package histogram counts durations by bucket.
package histogram

import (
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"
)

// Histogram may be used from any goroutine.
type Histogram struct {
	name    string
	bounds  []time.Duration
	buckets []atomic.Int64 // the last: above all bounds
	sum     atomic.Int64   // nanoseconds
}

// New returns a histogram whose buckets end at bounds, which must grow.
func New(name string, bounds ...time.Duration) *Histogram {
	return &Histogram{name: name, bounds: bounds, buckets: make([]atomic.Int64, len(bounds)+1)}
}

// Observe counts d.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// WritePrometheus sums the buckets up as it goes, so that they agree with the count
// even while others observe.
func (h *Histogram) WritePrometheus(w io.Writer) {
	var total int64
	for i := range h.buckets {
		total += h.buckets[i].Load()
		end := "+Inf"
		if i < len(h.bounds) {
			end = strconv.FormatFloat(h.bounds[i].Seconds(), 'g', -1, 64)
		}
		fmt.Fprintf(w, "%s_bucket{le=%q} %d\n", h.name, end, total)
	}
	fmt.Fprintf(w, "%s_sum %g\n%s_count %d\n", h.name, time.Duration(h.sum.Load()).Seconds(), h.name, total)
}
