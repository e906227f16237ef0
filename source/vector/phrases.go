package vector

import (
	"context"
	"errors"
	"fmt"

	"keyfold/engine"
)

// Config holds the settings of [Phrases].
type Config struct {
	// CacheBytes bounds the unit vectors kept in memory. 0 keeps none.
	CacheBytes int64
}

// DefaultConfig keeps 32 MiB of vectors: some 2,600 phrases of 1536 components.
func DefaultConfig() Config { return Config{CacheBytes: 32 << 20} }

// Validate reports every fault at once.
func (c Config) Validate() error {
	if c.CacheBytes < 0 {
		return fmt.Errorf("phrase cache of %d bytes: it must not be negative", c.CacheBytes)
	}
	return nil
}

// Phrases resolves search phrases to unit vectors: the engine's port over an
// [Embedder]. It is safe for concurrent use.
type Phrases struct {
	embedder Embedder
	cache    *cache
	stats    Stats
}

var _ engine.Vectors[string] = (*Phrases)(nil)

// NewPhrases returns the port over an embedder.
func NewPhrases(config Config, embedder Embedder) (*Phrases, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Phrases{embedder: embedder, cache: newCache(config.CacheBytes)}, nil
}

// Stats returns the port's counters.
func (p *Phrases) Stats() *Stats { return &p.stats }

// Resolve returns a unit vector or an error per phrase, aligned with phrases.
// White space at the ends and its length inside make no difference; letter
// case is left to the embedder.
//
// Errors: "blank_phrase" and what [engine.Unit] refuses are permanent and their
// phrase's alone. A call that failed is the error of every phrase it was made
// for, of the kind the embedder gave it; phrases the cache holds are not in it.
func (p *Phrases) Resolve(ctx context.Context, phrases []string) []engine.Resolved {
	answers := make([]engine.Resolved, len(phrases))
	var wanted []string          // distinct, not cached
	var waiting map[string][]int // the answers that wait for them
	for i, phrase := range phrases {
		text := normal(phrase)
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
	p.stats.Embedded.Add(int64(len(wanted)))
	p.embed(ctx, wanted, func(text string, r engine.Resolved) {
		for _, i := range waiting[text] {
			answers[i] = r
		}
	})
	return answers
}

// embed asks for texts and answers each. A call refused for good is made again
// in halves, so that one bad phrase costs no other its vector.
func (p *Phrases) embed(ctx context.Context, texts []string, answer func(string, engine.Resolved)) {
	if len(texts) == 0 {
		return
	}
	p.stats.Calls.Add(1)
	raw, err := p.embedder.Embed(ctx, texts)
	if err == nil && len(raw) != len(texts) {
		err = fmt.Errorf("embedder %s gave %d vectors for %d phrases", p.embedder.Model(), len(raw), len(texts))
	}
	if err == nil {
		for i, text := range texts {
			answer(text, p.unit(text, raw[i]))
		}
		return
	}
	p.stats.Failures.Add(1)
	if half := len(texts) / 2; half > 0 && engine.KindOf(err) == engine.Permanent {
		p.embed(ctx, texts[:half], answer)
		p.embed(ctx, texts[half:], answer)
		return
	}
	for _, text := range texts {
		answer(text, engine.Resolved{Err: fmt.Errorf("embedding: %w", err)})
	}
}

// unit checks a raw vector, normalises it and keeps it.
func (p *Phrases) unit(text string, raw []float32) engine.Resolved {
	unit, err := engine.Unit(raw, p.embedder.Dimensions())
	if err != nil {
		return engine.Resolved{Err: fmt.Errorf("embedder %s: %w", p.embedder.Model(), err)}
	}
	p.cache.put(text, unit)
	return engine.Resolved{Vector: unit}
}
