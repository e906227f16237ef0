package embedding

import (
	"fmt"
	"time"

	"keyfold/engine/breaker"
	"keyfold/engine/metric"
)

// Register adds the series of what is used to set.
func (e *Embedding) Register(set *metric.Set) {
	e.Phrases.Register(set)
	if e.API != nil {
		e.API.Register(set)
		e.Breaker.Register(set, "embedding_api")
	}
	if e.Redis != nil {
		e.Redis.Register(set)
	}
}

// Notes say which of its servers are away, since when and why, and which fail in part;
// nothing where all is well. Events go on all the same: searches are parked, or cost a call.
func (e *Embedding) Notes() (notes []string) {
	note := func(name, effect string, s breaker.State, failing error) {
		if s.Open {
			notes = append(notes, fmt.Sprintf("%s: away since %s (%s): %v", name, s.Since.UTC().Format(time.RFC3339), effect, s.Cause))
		} else if failing != nil {
			notes = append(notes, fmt.Sprintf("%s: %v", name, failing))
		}
	}
	if e.Breaker != nil {
		note("embedding API", e.effect, e.Breaker.State(), e.Breaker.Failing())
	}
	if e.Redis != nil {
		note("Redis", "bypassed", e.Redis.State(), e.Redis.Failing())
	}
	return notes
}
