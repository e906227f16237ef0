package embedding

import (
	"context"
	"fmt"
	"sync"
	"time"

	"keyfold/engine"
)

// Anteroom is where searches wait for their vectors, before their users' windows
// and not in them: no flush waits for the embedding API, and no product event
// waits beside a search. What waits is unacknowledged, so that the prefetch bounds
// it; patience bounds for how long, since a prefetch full of what waits would keep
// product events away.
//
// A search goes on once its phrase has a vector or a failure. For its flush,
// which asks again, the vector is in the cache in memory, and the failure is
// kept here.
//
// Rejected: to wait in the flush, where four searches whose calls hang stop all
// users; and to ask while the window is open, which helps only as long as calls
// are quicker than windows.
type Anteroom struct {
	phrases  engine.Vectors[string]
	next     func(context.Context, []engine.Delivery) error
	patience time.Duration
	ctx      context.Context //nolint:containedctx // ends with close
	cancel   context.CancelFunc
	calls    sync.WaitGroup

	mu       sync.Mutex
	waiting  map[string][]engine.Delivery // under mu: by phrase; one call each
	held     int                          // under mu: deliveries in waiting
	failures map[string]failure           // under mu: how the last call for a phrase failed
	swept    time.Time                    // under mu: when old failures were last forgotten
	open     bool                         // under mu: nobody waits any more
}

type failure struct {
	err  error
	at   time.Time
	late bool // the call goes on, and may have an answer by now
}

const (
	// failureTTL is how long a failure answers a flush: longer than a window as
	// a rule. Afterwards the flush asks by itself.
	failureTTL = time.Minute
	// glance is how long a flush looks for a vector that was late before.
	glance = 50 * time.Millisecond
)

// NewAnteroom returns one before next, which settles what it does not take.
// patience is how long a search waits here, and how long a flush waits for one
// that did not.
func NewAnteroom(phrases engine.Vectors[string], patience time.Duration, next func(context.Context, []engine.Delivery) error) *Anteroom {
	r := &Anteroom{
		phrases: phrases, next: next, patience: patience,
		waiting: map[string][]engine.Delivery{}, failures: map[string]failure{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Deliver hands product events on and keeps searches until their phrases are
// answered. An error is that of handing on.
func (r *Anteroom) Deliver(ctx context.Context, deliveries []engine.Delivery) error {
	through := deliveries
	if kept := r.keep(deliveries); kept > 0 {
		through = make([]engine.Delivery, 0, len(deliveries)-kept)
		for i := range deliveries {
			if deliveries[i].Event.Type != engine.Search {
				through = append(through, deliveries[i])
			}
		}
	}
	if len(through) == 0 {
		return nil
	}
	return r.next(ctx, through)
}

// keep takes the searches in and returns how many; none once the room is open.
func (r *Anteroom) keep(deliveries []engine.Delivery) (kept int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open {
		return 0
	}
	for i := range deliveries {
		e := &deliveries[i].Event
		if e.Type != engine.Search {
			continue
		}
		others, asked := r.waiting[e.Phrase]
		r.waiting[e.Phrase] = append(others, deliveries[i])
		kept++
		if !asked {
			phrase := e.Phrase
			r.calls.Go(func() { r.ask(phrase) })
		}
	}
	r.held += kept
	return kept
}

// ask waits for one phrase and lets its searches go on.
func (r *Anteroom) ask(phrase string) {
	ctx, cancel := r.within(r.ctx, r.patience)
	answer := r.phrases.Resolve(ctx, []string{phrase})[0]
	cancel()
	r.mu.Lock()
	searches := r.waiting[phrase]
	delete(r.waiting, phrase)
	r.held -= len(searches)
	r.note(phrase, answer.Err)
	r.mu.Unlock()
	r.pass(r.ctx, searches)
}

// note keeps a failure, or forgets one. It runs under the lock.
func (r *Anteroom) note(phrase string, err error) {
	if err == nil {
		delete(r.failures, phrase)
		return
	}
	now := time.Now()
	if now.Sub(r.swept) > failureTTL {
		r.swept = now
		for phrase, f := range r.failures {
			if now.Sub(f.at) > failureTTL {
				delete(r.failures, phrase)
			}
		}
	}
	r.failures[phrase] = failure{err, now, engine.ReasonOf(err) == reasonLate}
}

const reasonLate = "embedding_late"

// within bounds a wait for phrases.
func (r *Anteroom) within(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, &engine.Error{Kind: engine.Transient, Reason: reasonLate, Err: fmt.Errorf(
		"no vector within %v: it is kept when it comes", r.patience)})
}

// pass hands searches on. As the worker stops they may not be taken: they are the
// broker's again then, which is next's affair.
func (r *Anteroom) pass(ctx context.Context, searches []engine.Delivery) {
	if len(searches) > 0 {
		_ = r.next(ctx, searches)
	}
}

// Resolve answers a flush: with the failure its search has waited for, or with
// what there is within the patience; at once for what was late before.
func (r *Anteroom) Resolve(ctx context.Context, phrases []string) []engine.Resolved {
	answers := make([]engine.Resolved, len(phrases))
	var asked, late []int
	now := time.Now()
	r.mu.Lock()
	for i, phrase := range phrases {
		switch f, failed := r.failures[phrase]; {
		case !failed || now.Sub(f.at) >= failureTTL:
			asked = append(asked, i)
		case f.late:
			late = append(late, i)
		default:
			answers[i].Err = f.err
		}
	}
	r.mu.Unlock()
	r.resolve(ctx, r.patience, phrases, asked, answers)
	r.resolve(ctx, glance, phrases, late, answers)
	return answers
}

// resolve answers the phrases at these positions.
func (r *Anteroom) resolve(ctx context.Context, patience time.Duration, phrases []string, positions []int, answers []engine.Resolved) {
	if len(positions) == 0 {
		return
	}
	some := make([]string, len(positions))
	for k, i := range positions {
		some[k] = phrases[i]
	}
	ctx, cancel := r.within(ctx, patience)
	defer cancel()
	for k, answer := range r.phrases.Resolve(ctx, some) {
		answers[positions[k]] = answer
	}
}

// Waiting is how many searches wait.
func (r *Anteroom) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// Open lets all searches go on as they are, those to come too: the worker stops.
// It waits until ctx ends for windows that have no room.
func (r *Anteroom) Open(ctx context.Context) {
	r.mu.Lock()
	r.open = true
	var all []engine.Delivery
	for phrase, searches := range r.waiting {
		all = append(all, searches...)
		r.waiting[phrase] = nil
	}
	r.held = 0
	r.mu.Unlock()
	r.pass(ctx, all)
}

// Close ends the calls under way and waits for them. Open comes first.
func (r *Anteroom) Close() {
	r.cancel()
	r.calls.Wait()
}
