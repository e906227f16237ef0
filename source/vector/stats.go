package vector

import (
	"sync/atomic"

	"keyfold/engine/breaker"
	"keyfold/engine/metric"
)

// Stats counts since the start. Its fields are read with Load.
type Stats struct {
	Hits     atomic.Int64 // phrases the cache in memory held
	Joined   atomic.Int64 // phrases that shared an answer already asked for
	Shared   atomic.Int64 // phrases the shared cache held
	Embedded atomic.Int64 // distinct phrases the embedder was asked for
	Failures atomic.Int64 // calls that failed
	Left     atomic.Int64 // phrases whose caller did not wait for the answer
}

// Register adds the port's series to set.
func (p *Phrases) Register(set *metric.Set) {
	s := &p.stats
	const phrases = "Phrases by where their vector came from."
	set.Counter(`keyfold_phrases_total{from="memory"}`, phrases, s.Hits.Load)
	set.Counter(`keyfold_phrases_total{from="shared_request"}`, phrases, s.Joined.Load)
	set.Counter(`keyfold_phrases_total{from="redis"}`, phrases, s.Shared.Load)
	set.Counter(`keyfold_phrases_total{from="embedder"}`, phrases, s.Embedded.Load)
	set.Counter("keyfold_phrases_late_total", "Phrases whose caller did not wait for the vector.", s.Left.Load)
	set.Counter("keyfold_embedder_failures_total", "Calls of the embedder that failed.", s.Failures.Load)
}

// Register adds the breaker's series to set.
func (b *Breaker) Register(set *metric.Set, dependency string) {
	breaker.RegisterState(set, dependency, b.State)
	breaker.RegisterOpened(set, dependency, b.State)
}
