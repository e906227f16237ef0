package processor

import (
	"sync/atomic"

	"keyfold/engine"
	"keyfold/engine/metric"
)

// Stats counts what became of events and batches since the start. Its fields
// are read with Load.
type Stats struct {
	Outcomes  [engine.Unsettled + 1]atomic.Int64 // by engine.Outcome
	Batches   atomic.Int64                       // users' batches taken
	Writes    atomic.Int64                       // profiles written
	Begun     atomic.Int64                       // second vectors begun beside a profile that had none
	Conflicts atomic.Int64                       // writes that met another version
	Unknowns  atomic.Int64                       // writes resolved by reading ids back
	Reads     atomic.Int64                       // profiles read from the store
	Hits      atomic.Int64                       // profiles the cache held
	Failures  atomic.Int64                       // store calls that failed
	Overdue   atomic.Int64                       // events left to the broker: their lease was over
	Replayed  atomic.Int64                       // events of streams that a mark said were done
	Stale     atomic.Int64                       // folds that bridged more than 90 days

	EventTime  *metric.Histogram // of folded events, from their occurred_at to the profile's write
	UpdateTime *metric.Histogram // of profiles, from the start of their flush to their write
	FlushTime  *metric.Histogram // of calls of Apply
	LoadTime   *metric.Histogram // of the store's calls
	SwapTime   *metric.Histogram
}

func (s *Stats) time() {
	s.EventTime = metric.NewDelays()
	for _, h := range []**metric.Histogram{&s.UpdateTime, &s.FlushTime, &s.LoadTime, &s.SwapTime} {
		*h = metric.NewCalls()
	}
}

// events is how many events were settled.
func (s *Stats) events() (n int64) {
	for i := range s.Outcomes {
		n += s.Outcomes[i].Load()
	}
	return n
}

// Of returns how many events ended with an outcome.
func (s *Stats) Of(o engine.Outcome) int64 { return s.Outcomes[o].Load() }

// Register adds the series to set.
func (s *Stats) Register(set *metric.Set) {
	set.Counter("keyfold_batches_total", "Closed windows that were taken to be folded, each of one user.", s.Batches.Load)
	set.Counter("keyfold_profile_writes_total", "Profiles written.", s.Writes.Load)
	set.Counter("keyfold_short_vectors_begun_total", "Second vectors begun beside a profile: events before are not in them until it is made anew.", s.Begun.Load)
	set.Counter("keyfold_profile_reads_total", "Profiles read from the store.", s.Reads.Load)
	set.Counter("keyfold_profile_cache_hits_total", "Profiles that the cache held.", s.Hits.Load)
	set.Counter("keyfold_conflicts_total", "Writes that met another version of the profile and were repeated.", s.Conflicts.Load)
	set.Counter("keyfold_unknown_outcomes_total", "Writes without a clear answer, resolved by reading ids back.", s.Unknowns.Load)
	set.Counter("keyfold_store_failures_total", "Calls of the store that failed.", s.Failures.Load)
	set.Counter("keyfold_replayed_events_total", "Events of streams that were read again and were done by a profile's mark.", s.Replayed.Load)
	set.Counter("keyfold_overdue_events_total", "Events left to the broker because their lease was over.", s.Overdue.Load)
	set.Counter("keyfold_stale_profiles_total", "Folds that bridged more than 90 days.", s.Stale.Load)
	set.Histogram("keyfold_event_to_profile_seconds", "From an event's occurred_at to the write of the profile that has it; events of a backfill are old.", s.EventTime)
	set.Histogram("embedding_update_duration_seconds", "From the start of a flush to the write of one of its profiles.", s.UpdateTime)
	set.Histogram("keyfold_flush_seconds", "From the start of a flush until all its events are settled.", s.FlushTime)
	const calls = "Calls of the store of profiles, of many users each."
	set.Histogram(`keyfold_store_call_seconds{call="load"}`, calls, s.LoadTime)
	set.Histogram(`keyfold_store_call_seconds{call="swap"}`, calls, s.SwapTime)
}
