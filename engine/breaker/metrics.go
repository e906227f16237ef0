package breaker

import (
	"fmt"
	"time"

	"keyfold/engine/metric"
)

// Register adds the series of the breaker of a dependency to set.
func (b *Breaker) Register(set *metric.Set, dependency string) {
	RegisterState(set, dependency, b.State)
	RegisterOpened(set, dependency, b.State)
	set.Counter(labelled("keyfold_breaker_probes_total", dependency), "Probes of a dependency while its breaker was open.",
		func() int64 { return b.State().Probes })
}

// RegisterState adds whether the breaker of a dependency is open, and for how long.
func RegisterState(set *metric.Set, dependency string, state func() State) {
	set.Gauge(labelled("keyfold_breaker_open", dependency), "1 while a dependency is taken to be down.", func() float64 {
		if state().Open {
			return 1
		}
		return 0
	})
	set.Gauge(labelled("keyfold_breaker_open_seconds", dependency), "How long the breaker has been open; 0 while it is closed.", func() float64 {
		if s := state(); s.Open {
			return time.Since(s.Since).Seconds()
		}
		return 0
	})
}

// RegisterOpened adds how often the breaker of a dependency has opened.
func RegisterOpened(set *metric.Set, dependency string, state func() State) {
	set.Counter(labelled("keyfold_breaker_opened_total", dependency), "How often the breaker of a dependency has opened.",
		func() int64 { return state().Opened })
}

func labelled(name, dependency string) string {
	return fmt.Sprintf("%s{dependency=%q}", name, dependency)
}
