package metric

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// Histogram counts durations by bucket. It may be used from any goroutine.
type Histogram struct {
	bounds  []time.Duration
	buckets []atomic.Int64 // the last: above all bounds
	sum     atomic.Int64   // nanoseconds
}

// NewHistogram returns a histogram whose buckets end at bounds, which must grow.
func NewHistogram(bounds ...time.Duration) *Histogram {
	return &Histogram{bounds: bounds, buckets: make([]atomic.Int64, len(bounds)+1)}
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

// Count returns how many durations were counted.
func (h *Histogram) Count() (n int64) {
	for i := range h.buckets {
		n += h.buckets[i].Load()
	}
	return n
}

// write sums the buckets up as it goes, so that they agree with the count even while
// others observe.
func (h *Histogram) write(w io.Writer, name string) {
	var total int64
	for i := range h.buckets {
		total += h.buckets[i].Load()
		end := "+Inf"
		if i < len(h.bounds) {
			end = decimal(h.bounds[i].Seconds())
		}
		fmt.Fprintf(w, "%s_bucket{le=%q} %d\n", name, end, total)
	}
	fmt.Fprintf(w, "%s_sum %s\n%s_count %d\n", name, decimal(time.Duration(h.sum.Load()).Seconds()), name, total)
}
