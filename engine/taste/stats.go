package taste

import (
	"sync/atomic"

	"keyfold/engine"
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
