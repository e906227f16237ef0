package pipeline

import (
	"keyfold/cmd/consuming"
	"keyfold/engine/metric"
)

// Register adds the series of the engine and of the windows to set.
func (p *Pipeline) Register(set *metric.Set) {
	p.Taste.Stats().Register(set)
	consuming.RegisterWindows(set, p.Router.Stats)
}
