package vector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"keyfold/engine"
)

// Phrases resolves search phrases to unit vectors: the engine's port over an
// [Embedder]. It is safe for concurrent use.
type Phrases struct {
	config   Config
	embedder Embedder
	cache    *cache
	batcher  *batcher // nil: each call of Resolve calls the embedder itself
	stats    Stats
	answered atomic.Int64 // Unix nanoseconds of the embedder's last answer
}

var _ engine.Vectors[string] = (*Phrases)(nil)

// NewPhrases returns the port over an embedder that is quick and at hand: each
// Resolve makes its own call.
func NewPhrases(config Config, embedder Embedder) (*Phrases, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Phrases{config: config, embedder: embedder, cache: newCache(config.CacheBytes, config.CacheTTL)}, nil
}

// NewBatched returns the port over an embedder behind a network: calls of
// Resolve share requests, look into the shared cache (nil: there is none) before
// they ask, and fill it afterwards. It is closed with Close.
func NewBatched(config Config, gathering Batching, embedder Embedder, shared Cache) (*Phrases, error) {
	if err := gathering.Validate(); err != nil {
		return nil, err
	}
	p, err := NewPhrases(config, embedder)
	if err != nil {
		return nil, err
	}
	p.batcher = newBatcher(gathering, p, shared)
	return p, nil
}

// Close ends what is under way, with an error for who waits for it, and returns
// when it has ended. It may be called again.
func (p *Phrases) Close() {
	if p.batcher != nil {
		p.batcher.close()
	}
}

// Stats returns the port's counters.
func (p *Phrases) Stats() *Stats { return &p.stats }

// Resolve returns a unit vector or an error per phrase, aligned with phrases.
// Phrases with one [Normal] form are one phrase.
//
// Errors: "blank_phrase" and what [engine.Unit] refuses are permanent and their
// phrase's alone. A call that failed is the error of every phrase it was made
// for, of the kind the embedder gave it; phrases a cache holds are not in it.
func (p *Phrases) Resolve(ctx context.Context, phrases []string) []engine.Resolved {
	answers := make([]engine.Resolved, len(phrases))
	var wanted []string          // distinct, not cached
	var waiting map[string][]int // the answers that wait for them
	for i, phrase := range phrases {
		text := Normal(phrase, p.config.FoldCase)
		if text == "" {
			answers[i].Err = engine.PermanentError("blank_phrase", errors.New("search phrase is blank"))
			continue
		}
		if unit := p.cache.get(text); unit != nil {
			answers[i].Vector = unit
			p.stats.Hits.Add(1)
			continue
		}
		if waiting == nil {
			waiting = map[string][]int{}
		}
		if waiting[text] == nil {
			wanted = append(wanted, text)
		}
		waiting[text] = append(waiting[text], i)
	}
	if len(wanted) > 0 {
		p.obtain(ctx, wanted, func(text string, r engine.Resolved) {
			for _, i := range waiting[text] {
				answers[i] = r
			}
		})
	}
	return answers
}

// Cached returns the vector of a phrase if it is in memory, nil otherwise. It asks no
// server.
func (p *Phrases) Cached(phrase string) []float64 {
	unit := p.cache.get(Normal(phrase, p.config.FoldCase))
	if unit != nil {
		p.stats.Hits.Add(1)
	}
	return unit
}

// obtain answers each of the texts, which the cache did not hold.
func (p *Phrases) obtain(ctx context.Context, texts []string, answer func(string, engine.Resolved)) {
	if p.batcher == nil {
		p.stats.Embedded.Add(int64(len(texts)))
		ask(ctx, p.embedder, &p.stats, texts, func(text string, raw []float32, err error) {
			answer(text, p.resolved(text, raw, err))
		})
		return
	}
	asked := time.Now()
	if p.config.Patience > 0 {
		var cancel context.CancelFunc
		late := &engine.Error{Kind: engine.Transient, Reason: "embedding_late", Err: fmt.Errorf(
			"no vector within %v: it is kept when it comes", p.config.Patience)}
		ctx, cancel = context.WithTimeoutCause(ctx, p.config.Patience, late)
		defer cancel()
	}
	p.batcher.each(ctx, texts, func(text string, r engine.Resolved) {
		r.Err = p.judge(r.Err, asked)
		answer(text, r)
	})
}

// judge says of a failure whose it may be. Where the embedder has answered nothing
// since these phrases were asked for, it is the embedder's, whether the breaker has
// opened yet or not; otherwise, and where the breaker has judged so, it may be the
// phrase's own, and uses an attempt.
func (p *Phrases) judge(err error, asked time.Time) error {
	if err == nil || engine.KindOf(err) != engine.Transient || errors.Is(err, engine.ErrAway) || errors.Is(err, ErrOwn) || p.answered.Load() >= asked.UnixNano() {
		return err
	}
	return &engine.Error{Kind: engine.Transient, Reason: "embedder_away", Err: fmt.Errorf("embedder is %w: %w", engine.ErrAway, err)}
}

// resolved is the answer a raw vector is turned into; it is kept in memory.
func (p *Phrases) resolved(text string, raw []float32, err error) engine.Resolved {
	if err != nil {
		return engine.Resolved{Err: err}
	}
	unit, err := engine.Unit(raw, p.embedder.Dimensions())
	if err != nil {
		return engine.Resolved{Err: fmt.Errorf("embedder %s: %w", p.embedder.Model(), err)}
	}
	unit = append(unit, make([]float64, p.config.Zeros)...)
	p.cache.put(text, unit)
	return engine.Resolved{Vector: unit}
}
