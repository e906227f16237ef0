package metric

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync/atomic"
	"time"
)

// Histogram counts durations, or sizes, by bucket. It may be used from any goroutine.
type Histogram struct {
	bounds  []int64
	seconds bool           // durations, which are written in seconds
	buckets []atomic.Int64 // the last: above all bounds
	sum     atomic.Int64
}

// NewHistogram returns a histogram of durations whose buckets end at bounds, which must grow.
func NewHistogram(bounds ...time.Duration) *Histogram {
	h := NewSizes()
	for _, b := range bounds {
		h.bounds = append(h.bounds, int64(b))
	}
	h.seconds, h.buckets = true, make([]atomic.Int64, len(bounds)+1)
	return h
}

// NewSizes returns a histogram of counts whose buckets end at bounds, which must grow.
func NewSizes(bounds ...int64) *Histogram {
	return &Histogram{bounds: bounds, buckets: make([]atomic.Int64, len(bounds)+1)}
}

// NewCalls returns a histogram for calls of a server: 1 ms to 30 s.
func NewCalls() *Histogram {
	const ms = time.Millisecond
	return NewHistogram(ms, 5*ms/2, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms, 1000*ms, 2500*ms, 5000*ms, 10000*ms, 30000*ms)
}

// NewDelays returns a histogram for the way of an event through several processes: 50 ms to 1 h.
func NewDelays() *Histogram {
	const s = time.Second
	return NewHistogram(s/20, s/10, s/4, s/2, s, 2*s, 5*s, 10*s, 20*s, 30*s, 60*s, 300*s, 1800*s, 3600*s)
}

// Observe counts d.
func (h *Histogram) Observe(d time.Duration) { h.ObserveSize(int64(d)) }

// ObserveSize counts n.
func (h *Histogram) ObserveSize(n int64) {
	i := 0
	for i < len(h.bounds) && n > h.bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(n)
}

// Count returns how many durations were counted.
func (h *Histogram) Count() (n int64) {
	for i := range h.buckets {
		n += h.buckets[i].Load()
	}
	return n
}

// Quantile returns the end of the bucket that has the qth of the counted durations, the
// longest possible time above all bounds, and 0 where none was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	total, below := float64(h.Count()), 0.0
	for i := range h.bounds {
		if below += float64(h.buckets[i].Load()); below >= q*total {
			if total == 0 {
				return 0
			}
			return time.Duration(h.bounds[i])
		}
	}
	return math.MaxInt64
}

// write sums the buckets up as it goes, so that they agree with the count even while
// others observe.
func (h *Histogram) write(w io.Writer, series string) {
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	more, own := "", ""
	if labels != "" {
		more, own = labels+",", "{"+labels+"}"
	}
	var total int64
	for i := range h.buckets {
		total += h.buckets[i].Load()
		end := "+Inf"
		if i < len(h.bounds) {
			end = decimal(h.value(h.bounds[i]))
		}
		fmt.Fprintf(w, "%s_bucket{%sle=%q} %d\n", name, more, end, total)
	}
	fmt.Fprintf(w, "%s_sum%s %s\n%s_count%s %d\n", name, own, decimal(h.value(h.sum.Load())), name, own, total)
}

func (h *Histogram) value(n int64) float64 {
	if h.seconds {
		return time.Duration(n).Seconds()
	}
	return float64(n)
}
