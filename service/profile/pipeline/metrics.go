package pipeline

import (
	"keyfold/engine/metric"
	"keyfold/service/daemon"
)

// Register adds the series of the engine and of the windows to set.
func (p *Pipeline) Register(set *metric.Set) {
	p.Processor.Stats().Register(set)
	set.Gauge("keyfold_short_half_life_seconds", "Half-life of the profiles' second vector; 0: they have none.", p.shortHalfLife.Seconds)
	daemon.RegisterWindows(set, p.Router.Stats)
}
