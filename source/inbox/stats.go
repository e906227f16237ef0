package inbox

import (
	"maps"
	"slices"
)

// Stats counts events since the start, by what became of them.
type Stats struct {
	Stored    int64 // new events that Add stored
	Repeated  int64 // ids that Add had met before
	Recovered int64 // pending events that Recover found

	Folded         int64
	Duplicate      int64 // their ids were in the profile already
	ProductMissing int64
	UserErased     int64
	Retried        int64            // verdicts Retry that led to another attempt
	Dead           map[string]int64 // by reason, malformed bodies included
	FirstDead      []DeadEvent      // at most maxFirstDead, with reason, detail and origin
}

// maxFirstDead bounds the dead events that are kept to be shown.
const maxFirstDead = 5

// dead counts a dead event. The caller holds in.mu.
func (s *Stats) dead(d DeadEvent) {
	s.Dead[d.Reason]++
	if len(s.FirstDead) < maxFirstDead {
		s.FirstDead = append(s.FirstDead, d)
	}
}

// Stats returns the counts of this moment. A verdict counts when it is given,
// which is a moment before it is durable.
func (in *Inbox) Stats() Stats {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.stats
	s.Dead, s.FirstDead = maps.Clone(s.Dead), slices.Clone(s.FirstDead)
	return s
}

// count adds one event that ended as its mark says. The caller holds in.mu.
func (s *Stats) count(m *mark) {
	switch m.state {
	case StateFolded:
		s.Folded++
	case StateDuplicate:
		s.Duplicate++
	case StateProductMissing:
		s.ProductMissing++
	case StateUserErased:
		s.UserErased++
	case StateDead:
		s.dead(DeadEvent{Reason: m.reason, Detail: m.detail})
	case StatePending:
	}
}
