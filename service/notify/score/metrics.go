package score

import (
	"fmt"

	"keyfold/engine/metric"
	"keyfold/engine/notify"
)

// Register adds the series to set.
func (s *Scores) Register(set *metric.Set) {
	set.Counter("keyfold_notify_ai_known_total", "Notifications whose text was compared with the user's profile.", s.known.Load)
	for i, skip := range notify.Skips {
		set.Counter(fmt.Sprintf("keyfold_notify_ai_skipped_total{why=%q}", string(skip)),
			"Notifications that were decided without the user's taste.", s.skipped[i].Load)
	}
}

// Notes returns which servers are away; decisions go on without them.
func (s *Scores) Notes() (notes []string) {
	for _, g := range []*gate{s.store, s.api} {
		if g.open() {
			notes = append(notes, g.circuit.Name()+": away or slow: scores are made without the users' taste")
		}
	}
	return notes
}
