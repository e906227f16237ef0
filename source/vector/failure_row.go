package vector

import (
	"errors"
	"slices"
	"sync"

	"keyfold/engine"
)

// ErrOwn: the embedder answers an ordinary phrase, and fails for those of this call. The
// failure is of the kind that the embedder gave it.
var ErrOwn = errors.New("the embedder answers other phrases")

// ordinary is a phrase that every embedder has a vector for.
var ordinary = []string{"shoes"}

// answered reports whether the outcome of a call is an answer of an embedder that works.
func answered(err error) bool { return err == nil || engine.KindOf(err) == engine.Permanent }

// failureRow is what failed since the last answer.
type failureRow struct {
	mu       sync.Mutex
	failed   int             // calls
	distinct int             // of them, those without a phrase of an earlier one
	phrases  map[string]bool // of the distinct ones
	probed   bool            // the ordinary phrase failed
}

// note takes the outcome of a call.
func (r *failureRow) note(phrases []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answered(err) {
		r.failed, r.distinct, r.phrases, r.probed = 0, 0, nil, false
		return
	}
	r.failed++
	r.probed = r.probed || r.failed > 1 && slices.Equal(phrases, ordinary)
	if slices.ContainsFunc(phrases, func(phrase string) bool { return r.phrases[phrase] }) {
		return
	}
	r.distinct++
	if r.phrases == nil {
		r.phrases = map[string]bool{}
	}
	for _, phrase := range phrases {
		r.phrases[phrase] = true
	}
}

// ofAll reports whether the failures are no phrase's own.
func (r *failureRow) ofAll(failures int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.distinct >= failures || r.failed > failures && r.probed
}

// suspects reports whether so many calls failed that an ordinary phrase has to tell whose
// the failures are.
func (r *failureRow) suspects(failures int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed >= failures
}
