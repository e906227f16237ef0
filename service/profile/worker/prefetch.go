package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Prefetcher resolves the phrases of searches before the searches join their users'
// windows: no flush waits for the embedding API, and no product event waits beside a
// search. Waiting searches are unacknowledged, so that the consumer's prefetch bounds
// their number. The timeout bounds how long each waits, since waiting searches take
// prefetch away from product events.
//
// A search goes on once its phrase has a vector or a failure. The flush asks for the
// phrase again: the vector is then in the cache in memory, and the Prefetcher keeps
// the failure.
//
// Rejected: to wait in the flush, where four searches whose calls hang stop all
// users; and to ask while the window is open, which helps only as long as calls
// are quicker than windows.
type Prefetcher struct {
	phrases engine.Vectors[string]
	next    func(context.Context, []profile.Delivery) error
	timeout time.Duration
	ctx     context.Context //nolint:containedctx // ends with Close
	cancel  context.CancelFunc
	calls   sync.WaitGroup

	mu       sync.Mutex
	waiting  map[string][]profile.Delivery // under mu: by phrase; one call each
	held     int                           // under mu: deliveries in waiting
	failures map[string]failure            // under mu: how the last call for a phrase failed
	swept    time.Time                     // under mu: when old failures were last forgotten
	released bool                          // under mu: no search waits any more
}

type failure struct {
	err  error
	at   time.Time
	late bool // the call goes on, and may have an answer by now
}

const (
	// failureTTL is how long a failure is the answer to a flush. It is longer than
	// most windows; afterwards the flush makes a call of its own.
	failureTTL = time.Minute
	// lateTimeout is how long a flush waits for a vector that came too late for the
	// search.
	lateTimeout = 50 * time.Millisecond
)

// NewPrefetcher returns a prefetcher in front of next, which settles the deliveries
// it does not take. A search waits for its phrase at most for the timeout, and so
// does a flush for a phrase that no search has waited for.
func NewPrefetcher(phrases engine.Vectors[string], timeout time.Duration, next func(context.Context, []profile.Delivery) error) *Prefetcher {
	p := &Prefetcher{
		phrases: phrases, next: next, timeout: timeout,
		waiting: map[string][]profile.Delivery{}, failures: map[string]failure{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Deliver hands product events on and keeps searches until their phrases are
// answered. Its error is that of next.
func (p *Prefetcher) Deliver(ctx context.Context, deliveries []profile.Delivery) error {
	through := deliveries
	if kept := p.keep(deliveries); kept > 0 {
		through = make([]profile.Delivery, 0, len(deliveries)-kept)
		for i := range deliveries {
			if !deliveries[i].Event.Type.HasPhrase() {
				through = append(through, deliveries[i])
			}
		}
	}
	if len(through) == 0 {
		return nil
	}
	return p.next(ctx, through)
}

// keep holds back the searches and returns how many; none after Release.
func (p *Prefetcher) keep(deliveries []profile.Delivery) (kept int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		return 0
	}
	for i := range deliveries {
		e := &deliveries[i].Event
		if !e.Type.HasPhrase() {
			continue
		}
		others, asked := p.waiting[e.Phrase]
		p.waiting[e.Phrase] = append(others, deliveries[i])
		kept++
		if !asked {
			phrase := e.Phrase
			p.calls.Go(func() { p.ask(phrase) })
		}
	}
	p.held += kept
	return kept
}

// ask waits for one phrase and lets its searches go on.
func (p *Prefetcher) ask(phrase string) {
	ctx, cancel := p.within(p.ctx, p.timeout)
	answer := p.phrases.Resolve(ctx, []string{phrase})[0]
	cancel()
	p.mu.Lock()
	searches := p.waiting[phrase]
	delete(p.waiting, phrase)
	p.held -= len(searches)
	p.note(phrase, answer.Err)
	p.mu.Unlock()
	p.pass(p.ctx, searches)
}

// note keeps a failure, or forgets one. It runs under the lock.
func (p *Prefetcher) note(phrase string, err error) {
	if err == nil {
		delete(p.failures, phrase)
		return
	}
	now := time.Now()
	if now.Sub(p.swept) > failureTTL {
		p.swept = now
		for phrase, f := range p.failures {
			if now.Sub(f.at) > failureTTL {
				delete(p.failures, phrase)
			}
		}
	}
	p.failures[phrase] = failure{err, now, engine.ReasonOf(err) == reasonLate}
}

const reasonLate = "embedding_late"

// within bounds a wait for phrases.
func (p *Prefetcher) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, &engine.Error{Kind: engine.Transient, Reason: reasonLate, Err: fmt.Errorf(
		"no vector within %v: it is kept when it comes", p.timeout)})
}

// pass hands searches on. next settles those that it does not take because the
// worker stops: the broker delivers them again.
func (p *Prefetcher) pass(ctx context.Context, searches []profile.Delivery) {
	if len(searches) > 0 {
		_ = p.next(ctx, searches)
	}
}

// Resolve answers a flush: with the failure of the call its search has waited for, or
// with a new call, which is cut short for phrases whose last call was late.
func (p *Prefetcher) Resolve(ctx context.Context, phrases []string) []engine.Resolved {
	answers := make([]engine.Resolved, len(phrases))
	var asked, late []int
	now := time.Now()
	p.mu.Lock()
	for i, phrase := range phrases {
		switch f, failed := p.failures[phrase]; {
		case !failed || now.Sub(f.at) >= failureTTL:
			asked = append(asked, i)
		case f.late:
			late = append(late, i)
		default:
			answers[i].Err = f.err
		}
	}
	p.mu.Unlock()
	p.resolve(ctx, p.timeout, phrases, asked, answers)
	p.resolve(ctx, lateTimeout, phrases, late, answers)
	return answers
}

// resolve answers the phrases at these positions.
func (p *Prefetcher) resolve(ctx context.Context, timeout time.Duration, phrases []string, positions []int, answers []engine.Resolved) {
	if len(positions) == 0 {
		return
	}
	some := make([]string, len(positions))
	for k, i := range positions {
		some[k] = phrases[i]
	}
	ctx, cancel := p.within(ctx, timeout)
	defer cancel()
	for k, answer := range p.phrases.Resolve(ctx, some) {
		answers[positions[k]] = answer
	}
}

// Waiting is how many searches wait.
func (p *Prefetcher) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Release hands on all waiting searches without their vectors; from now on Deliver
// holds no search back. Where windows have no room it waits for that until ctx ends.
func (p *Prefetcher) Release(ctx context.Context) {
	p.mu.Lock()
	p.released = true
	var all []profile.Delivery
	for phrase, searches := range p.waiting {
		all = append(all, searches...)
		p.waiting[phrase] = nil
	}
	p.held = 0
	p.mu.Unlock()
	p.pass(ctx, all)
}

// Close ends the calls under way and waits for them. Release comes first.
func (p *Prefetcher) Close() {
	p.cancel()
	p.calls.Wait()
}
