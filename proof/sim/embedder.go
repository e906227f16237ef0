package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/proof/schedule"
)

// embedder is a worker's way to a model of phrases, which fails now and then.
type embedder struct {
	*worker

	mu    sync.Mutex
	calls map[string]uint64
}

var errPhrase = errors.New("sim: the model does not answer")

// maxFailures is how often one phrase fails in a schedule: fewer times than the
// retries of any of its events.
const maxFailures = 2

// Resolve implements [engine.Vectors].
func (e *embedder) Resolve(ctx context.Context, phrases []string) []engine.Resolved {
	answers := make([]engine.Resolved, len(phrases))
	err := e.alive(ctx)
	d := e.rngFor(phrases[0])
	if err == nil {
		err = pause(ctx, e.latency(ctx, &d, phrases))
	}
	for i, phrase := range phrases {
		if err == nil {
			answers[i] = e.resolve(&d, phrase)
		} else {
			answers[i].Err = context.Cause(ctx)
		}
	}
	return answers
}

// latency draws how long a call takes. A call that comes too late for its caller is a
// failure of each of its phrases.
func (e *embedder) latency(ctx context.Context, d *schedule.RNG, phrases []string) time.Duration {
	latency, usual := d.Latency(20*time.Millisecond, time.Second), 20*time.Millisecond
	deadline, bounded := ctx.Deadline()
	if !bounded || time.Until(deadline) > latency {
		return latency
	}
	if e.quiet() {
		return d.Between(usual/10, usual)
	}
	for _, phrase := range phrases {
		if !e.mayFail(phrase) {
			return d.Between(usual/10, usual)
		}
	}
	return latency
}

func (e *embedder) rngFor(phrase string) schedule.RNG {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls == nil {
		e.calls = map[string]uint64{}
	}
	e.calls[phrase]++
	return e.rng("phrase "+phrase, e.life, e.calls[phrase])
}

func (e *embedder) resolve(d *schedule.RNG, phrase string) (r engine.Resolved) {
	switch {
	case phrase == hopelessPhrase:
		r.Err = errPhrase
	case !e.quiet() && d.Chance(e.plan.rates.away):
		r.Err = fmt.Errorf("%w: %w", engine.ErrAway, errPhrase)
	case !e.quiet() && d.Chance(e.plan.rates.phrase) && e.mayFail(phrase):
		r.Err = errPhrase
	default:
		r.Vector, r.Err = engine.Unit(embed(e.plan.dimensions, phrase), e.plan.dimensions)
	}
	return r
}

// mayFail counts a phrase's failures.
func (w *simulation) mayFail(phrase string) bool {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.failures[phrase]++
	return w.failures[phrase] <= maxFailures
}
