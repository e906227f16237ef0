package repeat

import (
	"sync/atomic"

	"keyfold/engine/metric"
	"keyfold/engine/notify"
)

// Stats counts events since the start.
type Stats struct {
	idem, fresh, asked, away atomic.Int64 // by what a look-up said
	written, dropped         atomic.Int64 // by what became of them after the confirm
}

func (s *Stats) count(answer notify.Repeat) {
	switch answer {
	case notify.RepeatKnown:
		s.idem.Add(1)
	case notify.RepeatNew:
		s.fresh.Add(1)
	default:
		s.asked.Add(1)
	}
}

// Fill returns how much of its capacity the newest generation of the filter holds, as it
// was last seen.
func (s *Store) Fill() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.fill
}

// Register adds the store's series to set.
func (s *Store) Register(set *metric.Set) {
	const repeats = "Notifications that were posted, by what Redis said: idem, a repeat; new, certainly not; asked, PostgreSQL was to be asked; away, Redis did not answer."
	set.Counter(`keyfold_notify_repeats_total{answer="idem"}`, repeats, s.stats.idem.Load)
	set.Counter(`keyfold_notify_repeats_total{answer="new"}`, repeats, s.stats.fresh.Load)
	set.Counter(`keyfold_notify_repeats_total{answer="asked"}`, repeats, s.stats.asked.Load)
	set.Counter(`keyfold_notify_repeats_total{answer="away"}`, repeats, s.stats.away.Load)
	const kept = "Confirmed notifications, by whether Redis was told."
	set.Counter(`keyfold_notify_repeats_kept_total{kept="true"}`, kept, s.stats.written.Load)
	set.Counter(`keyfold_notify_repeats_kept_total{kept="false"}`, kept, s.stats.dropped.Load)
	set.Gauge("keyfold_notify_bloom_fill_ratio", "Part of its capacity that the newest generation of the filter holds; the next one opens at 0.7.", s.Fill)
	s.circuit.Register(set, "redis")
}
