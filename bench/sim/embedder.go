package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"keyfold/engine"
)

// embedder is a worker's way to a model of phrases, which fails now and then.
type embedder struct {
	*world
	life uint64

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
	d := e.diceFor(phrases[0])
	if err := pause(ctx, d.latency(20*time.Millisecond, time.Second)); err != nil {
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	for i, phrase := range phrases {
		answers[i] = e.resolve(&d, phrase)
	}
	return answers
}

func (e *embedder) diceFor(phrase string) dice {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls == nil {
		e.calls = map[string]uint64{}
	}
	e.calls[phrase]++
	return e.dice("phrase "+phrase, e.life, e.calls[phrase])
}

func (e *embedder) resolve(d *dice, phrase string) (r engine.Resolved) {
	switch {
	case phrase == hopelessPhrase:
		r.Err = errPhrase
	case !e.calm() && d.chance(e.plan.rates.away):
		r.Err = fmt.Errorf("%w: %w", engine.ErrAway, errPhrase)
	case !e.calm() && d.chance(e.plan.rates.phrase) && e.mayFail(phrase):
		r.Err = errPhrase
	default:
		r.Vector, r.Err = engine.Unit(embed(e.plan.dimensions, phrase), e.plan.dimensions)
	}
	return r
}

// mayFail counts a phrase's failures.
func (w *world) mayFail(phrase string) bool {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.failures[phrase]++
	return w.failures[phrase] <= maxFailures
}
