package embedding

import (
	"fmt"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"keyfold/engine/breaker"
)

// WriteMetrics writes what the way has counted, in Prometheus's text format.
func (e *Embedding) WriteMetrics(to io.Writer) {
	count := func(name string, n int64) { metrics.WriteCounterUint64(to, name, uint64(max(0, n))) }
	p := e.Phrases.Stats()
	count(`keyfold_phrases_total{from="memory"}`, p.Hits.Load())
	count(`keyfold_phrases_total{from="shared_request"}`, p.Joined.Load())
	count(`keyfold_phrases_total{from="redis"}`, p.Shared.Load())
	count(`keyfold_phrases_total{from="embedder"}`, p.Embedded.Load())
	count("keyfold_phrases_late_total", p.Left.Load())
	count("keyfold_embedder_failures_total", p.Failures.Load())
	if e.API != nil {
		a := e.API.Stats()
		count("keyfold_embedding_requests_total", a.Requests.Load())
		count("keyfold_embedding_inputs_total", a.Phrases.Load())
		count("keyfold_embedding_tokens_total", a.Tokens.Load())
		count(`keyfold_embedding_failures_total{kind="transient"}`, a.Transient.Load())
		count(`keyfold_embedding_failures_total{kind="permanent"}`, a.Permanent.Load())
		count(`keyfold_embedding_failures_total{kind="configuration"}`, a.Configuration.Load())
		breaker.WriteState(to, "embedding_api", e.Breaker.State())
		count(`keyfold_breaker_opened_total{dependency="embedding_api"}`, e.Breaker.Stats().Openings.Load())
	}
	if e.Redis != nil {
		r := e.Redis.Stats()
		count("keyfold_redis_hits_total", r.Hits.Load())
		count("keyfold_redis_misses_total", r.Misses.Load())
		count("keyfold_redis_invalid_total", r.Invalid.Load())
		count("keyfold_redis_written_total", r.Written.Load())
		count("keyfold_redis_failures_total", r.Failures.Load())
		count("keyfold_redis_bypassed_total", r.Bypassed.Load())
		breaker.WriteState(to, "redis", e.Redis.State())
	}
}

// Away says which of its servers are away, since when and why; nothing where
// all is well. Events go on all the same: searches are parked, or cost a call.
func (e *Embedding) Away() (notes []string) {
	note := func(name, effect string, s breaker.State) {
		if s.Open {
			notes = append(notes, fmt.Sprintf("%s: away since %s (%s): %v", name, s.Since.UTC().Format(time.RFC3339), effect, s.Cause))
		}
	}
	if e.Breaker != nil {
		note("embedding API", "search events are parked", e.Breaker.State())
	}
	if e.Redis != nil {
		note("Redis", "passed by", e.Redis.State())
	}
	return notes
}
