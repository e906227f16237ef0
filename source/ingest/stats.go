package ingest

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"
)

// Stats counts since the start, except for the gauge. Its fields are read with
// Load.
type Stats struct {
	Accepted  atomic.Int64 // new events
	Duplicate atomic.Int64 // events stored before
	Refused   atomic.Int64 // events at fault
	InFlight  atomic.Int64 // gauge: requests being answered
	Abandoned atomic.Int64 // requests whose sender left before the commit

	set      *metrics.Set
	latency  *metrics.PrometheusHistogram // in set
	statuses [600]atomic.Int64            // requests by status
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
	s.set.WritePrometheus(w)
}

// bounds are the buckets' upper ends in seconds. One lies at the promised 200 ms.
var bounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2.5, 5, 10, 30}
