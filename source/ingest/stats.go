package ingest

import (
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"
)

// Stats counts since the start, except for the gauge. Its fields are read with
// Load.
type Stats struct {
	Accepted  atomic.Int64 // new events
	Duplicate atomic.Int64 // events stored before
	Refused   atomic.Int64 // events at fault
	InFlight  atomic.Int64 // gauge: requests being answered
	Abandoned atomic.Int64 // requests whose sender left before the commit

	latency  histogram
	statuses [600]atomic.Int64 // requests by status
}

// Requests returns how many requests were answered with a status.
func (s *Stats) Requests(status int) int64 {
	if status < 0 || status >= len(s.statuses) {
		return 0
	}
	return s.statuses[status].Load()
}

// Class returns how many requests were answered with a status of a class: 4 for
// those from 400 to 499.
func (s *Stats) Class(class int) (n int64) {
	for status := 100 * class; status < 100*(class+1); status++ {
		n += s.Requests(status)
	}
	return n
}

// WritePrometheus writes everything in Prometheus's text format. Statuses that
// never were are left out.
func (s *Stats) WritePrometheus(w io.Writer) {
	for _, c := range []struct {
		outcome string
		n       int64
	}{
		{statusAccepted, s.Accepted.Load()},
		{statusDuplicate, s.Duplicate.Load()},
		{statusRefused, s.Refused.Load()},
	} {
		fmt.Fprintf(w, "keyfold_ingest_events_total{outcome=%q} %d\n", c.outcome, c.n)
	}
	for status := range s.statuses {
		if n := s.statuses[status].Load(); n > 0 {
			fmt.Fprintf(w, "keyfold_ingest_requests_total{status=\"%d\"} %d\n", status, n)
		}
	}
	fmt.Fprintf(w, "keyfold_ingest_requests_abandoned_total %d\n", s.Abandoned.Load())
	fmt.Fprintf(w, "keyfold_ingest_requests_in_flight %d\n", s.InFlight.Load())
	s.latency.write(w, "keyfold_ingest_request_duration_seconds")
}

// bounds are the buckets' upper ends. One lies at the promised 200 ms.
var bounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// histogram counts durations by bucket.
type histogram struct {
	buckets [len(bounds) + 1]atomic.Int64 // the last: above all bounds
	sum     atomic.Int64                  // nanoseconds
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// write sums the buckets up as it goes, so that they agree with the count even
// while others observe.
func (h *histogram) write(w io.Writer, name string) {
	var total int64
	for i := range h.buckets {
		total += h.buckets[i].Load()
		end := "+Inf"
		if i < len(bounds) {
			end = strconv.FormatFloat(bounds[i].Seconds(), 'g', -1, 64)
		}
		fmt.Fprintf(w, "%s_bucket{le=%q} %d\n", name, end, total)
	}
	fmt.Fprintf(w, "%s_sum %g\n%s_count %d\n", name, time.Duration(h.sum.Load()).Seconds(), name, total)
}
