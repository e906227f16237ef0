package pipeline

import (
	"keyfold/engine/metric"
	"keyfold/service/daemon"
)

// Register adds the series of the engine and of the windows to set.
func (p *Pipeline) Register(set *metric.Set) {
	p.Processor.Stats().Register(set)
	daemon.RegisterWindows(set, p.Router.Stats)
}
