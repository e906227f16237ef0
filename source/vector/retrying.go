package vector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"keyfold/engine"
	"keyfold/engine/backoff"
)

// RetryingConfig holds the settings of a [Retrying].
type RetryingConfig struct {
	// Attempts is how often a call is made at most.
	Attempts int
	// Pause is how long it waits after the first that failed; it doubles from
	// one to the next, and is longer where the other side asks for it.
	Pause time.Duration
	// Within is how long after the first call another may begin. 0: no bound.
	Within time.Duration
	// PerSecond bounds the calls a second. 0: no bound.
	PerSecond float64
}

// DefaultRetryingConfig tries for about two minutes.
func DefaultRetryingConfig() RetryingConfig {
	return RetryingConfig{Attempts: 8, Pause: time.Second}
}

// Validate reports every fault at once.
func (c RetryingConfig) Validate() error {
	var faults engine.Faults
	faults.If(c.Attempts < 1, "%d attempts at a call: it must be at least 1", c.Attempts)
	faults.If(c.Pause <= 0, "a pause of %v between attempts: it must be above 0", c.Pause)
	faults.If(c.Within < 0, "attempts within %v: it must not be negative", c.Within)
	faults.If(!(c.PerSecond >= 0), "%v calls a second: it must not be negative", c.PerSecond)
	return faults.Err()
}

// Retrying makes calls again that may succeed later, for callers who have no
// queue to put their work back into. What cannot pass by waiting (a refused
// text, a configuration fault, a spent quota) comes back at once, and so does what a
// [Breaker] has judged.
type Retrying struct {
	Embedder
	config RetryingConfig
	limit  *rate.Limiter
}

var _ Embedder = (*Retrying)(nil)

// NewRetrying returns a patient way to an embedder.
func NewRetrying(config RetryingConfig, embedder Embedder) (*Retrying, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	limit := rate.Inf
	if config.PerSecond > 0 {
		limit = rate.Limit(config.PerSecond)
	}
	return &Retrying{Embedder: embedder, config: config, limit: rate.NewLimiter(limit, 1)}, nil
}

// Embed asks until there is an answer, the attempts are used up or ctx ends.
func (p *Retrying) Embed(ctx context.Context, phrases []string) ([][]float32, error) {
	const longest = 30 * time.Second // between attempts, where the other side asks for no more
	pause, began := backoff.Backoff{Min: p.config.Pause, Max: longest}, time.Now()
	for attempt := 1; ; attempt++ {
		if err := p.limit.Wait(ctx); err != nil {
			return nil, err
		}
		vectors, err := p.Embedder.Embed(ctx, phrases)
		if err == nil || ctx.Err() != nil || engine.KindOf(err) != engine.Transient || errors.Is(err, engine.ErrAway) || errors.Is(err, ErrOwn) {
			return vectors, err
		}
		jittered := max(pause.Next(), min(PauseOf(err), maxPause))
		late := p.config.Within > 0 && time.Since(began)+jittered > p.config.Within
		if attempt == p.config.Attempts || late {
			return nil, fmt.Errorf("after %d attempts: %w", attempt, err)
		}
		if !backoff.Sleep(ctx, jittered) {
			return nil, err
		}
	}
}
