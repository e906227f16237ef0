package ingest

import (
	"sync/atomic"

	"keyfold/engine/metric"
)

// Stats counts events since the start.
type Stats struct {
	Accepted  atomic.Int64 // new
	Duplicate atomic.Int64 // stored before
	Refused   atomic.Int64 // at fault
}

// Stats returns the counters.
func (a *API) Stats() *Stats { return &a.stats }

// Register adds the series to set.
func (s *Stats) Register(set *metric.Set) {
	const events = "Events of requests, by outcome."
	set.Counter(`keyfold_ingest_events_total{outcome="accepted"}`, events, s.Accepted.Load)
	set.Counter(`keyfold_ingest_events_total{outcome="duplicate"}`, events, s.Duplicate.Load)
	set.Counter(`keyfold_ingest_events_total{outcome="refused"}`, events, s.Refused.Load)
}
