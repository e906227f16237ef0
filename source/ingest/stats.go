package ingest

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"keyfold/engine/histogram"
)

// Stats counts since the start, except for the gauge. Its fields are read with
// Load.
type Stats struct {
	Accepted  atomic.Int64 // new events
	Duplicate atomic.Int64 // events stored before
	Refused   atomic.Int64 // events at fault
	InFlight  atomic.Int64 // gauge: requests being answered
	Abandoned atomic.Int64 // requests whose sender left before the commit

	latency  *histogram.Histogram
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
	s.latency.WritePrometheus(w)
}

// newLatency has a bucket that ends at the promised 200 ms.
func newLatency() *histogram.Histogram {
	const ms = time.Millisecond
	return histogram.New("keyfold_ingest_request_duration_seconds",
		ms, 5*ms/2, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 200*ms, 500*ms, 1000*ms, 2500*ms, 5000*ms, 10000*ms, 30000*ms)
}
