package api

import (
	"sync/atomic"

	"keyfold/engine/metric"
)

// Stats counts what was posted.
type Stats struct {
	Accepted  atomic.Int64 // notifications that the broker keeps
	Duplicate atomic.Int64 // that were decided before, or stood twice in a request
	Refused   atomic.Int64 // at fault, or under the event_id of another one
	Failed    atomic.Int64 // that the broker did not confirm
	Waits     atomic.Int64 // requests that waited for their decisions
	InTime    atomic.Int64 // of these, those that got them
}

// Stats returns the counters.
func (a *API) Stats() *Stats { return &a.counts }

// Register adds the series to set.
func (s *Stats) Register(set *metric.Set) {
	const posted = "Notifications that were posted, by what became of them."
	set.Counter(`keyfold_notify_posted_total{outcome="accepted"}`, posted, s.Accepted.Load)
	set.Counter(`keyfold_notify_posted_total{outcome="duplicate"}`, posted, s.Duplicate.Load)
	set.Counter(`keyfold_notify_posted_total{outcome="refused"}`, posted, s.Refused.Load)
	set.Counter(`keyfold_notify_posted_total{outcome="failed"}`, posted, s.Failed.Load)
	set.Counter("events_published_total", "Events whose publication the broker has confirmed.", s.Accepted.Load)
	const waits = "Requests that waited for their decisions, and whether these came in time."
	set.Counter(`keyfold_notify_waits_total{in_time="true"}`, waits, s.InTime.Load)
	set.Counter(`keyfold_notify_waits_total{in_time="false"}`, waits, func() int64 { return s.Waits.Load() - s.InTime.Load() })
}
