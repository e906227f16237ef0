package taste

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
	Conflicts atomic.Int64                       // writes that met another version
	Unknowns  atomic.Int64                       // writes resolved by reading ids back
	Reads     atomic.Int64                       // profiles read from the store
	Hits      atomic.Int64                       // profiles the cache held
	Failures  atomic.Int64                       // store calls that failed
	Overdue   atomic.Int64                       // events left to the broker: their lease was over
	Stale     atomic.Int64                       // folds that bridged more than 90 days
}

// Of returns how many events ended with an outcome.
func (s *Stats) Of(o engine.Outcome) int64 { return s.Outcomes[o].Load() }

// Register adds the series to set.
func (s *Stats) Register(set *metric.Set) {
	set.Counter("keyfold_batches_total", "Closed windows that were taken to be folded, each of one user.", s.Batches.Load)
	set.Counter("keyfold_profile_writes_total", "Profiles written.", s.Writes.Load)
	set.Counter("keyfold_profile_reads_total", "Profiles read from the store.", s.Reads.Load)
	set.Counter("keyfold_profile_cache_hits_total", "Profiles that the cache held.", s.Hits.Load)
	set.Counter("keyfold_conflicts_total", "Writes that met another version of the profile and were repeated.", s.Conflicts.Load)
	set.Counter("keyfold_unknown_outcomes_total", "Writes without a clear answer, resolved by reading ids back.", s.Unknowns.Load)
	set.Counter("keyfold_store_failures_total", "Calls of the store that failed.", s.Failures.Load)
	set.Counter("keyfold_overdue_events_total", "Events left to the broker because their lease was over.", s.Overdue.Load)
	set.Counter("keyfold_stale_profiles_total", "Folds that bridged more than 90 days.", s.Stale.Load)
}
