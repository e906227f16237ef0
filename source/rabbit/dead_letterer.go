package rabbit

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/failpoint"
)

// Letter is an event that was given up.
type Letter struct {
	Message   *Original
	Reason    string    // stable, snake_case
	Retries   int       // attempts after the first one
	Failures  []Failure // at least one, the oldest first
	FirstSeen engine.Millis
}

// DeadLetters keeps what was given up.
type DeadLetters interface {
	// Store stores letters. The answer is aligned with them: nil once a letter
	// is safe, so that its original can be acknowledged.
	Store(ctx context.Context, letters []Letter) []error
}

const (
	letterTimeout  = 30 * time.Second
	maxLetters     = 256     // in one group
	maxLetterBytes = 4 << 20 // of bodies in one group, which has one at least
	// unstoredEvery is how often letters that cannot be stored are logged.
	unstoredEvery = time.Minute
)

// pendingLetter is a given-up message that waits for its letter to be stored.
type pendingLetter struct {
	settler  *settler
	reason   string
	failures int
	due      time.Time // no sooner, after a failure
	pause    backoff.Backoff
}

// deadLetterer hands given-up events to the dead letters, one group at a time. Its
// queue is bounded by the prefetch: each entry is an unacknowledged message.
//
// A letter that the broker refuses by closing the channel takes with it those
// behind it. So what has failed goes out alone, each at its own pace, and new
// letters in groups in between.
type deadLetterer struct {
	consumer *Consumer
	wake     chan struct{}

	mu       sync.Mutex
	waiting  []pendingLetter // never tried
	failed   []pendingLetter
	single   bool  // the next one is a failed one, where one is due
	unstored int   // failed, also while on the way
	cause    error // of the last failure; nil while unstored is 0

	told time.Time // only used by run: when failures were last logged
}

func (b *deadLetterer) add(t *settler, reason string) {
	b.mu.Lock()
	b.waiting = append(b.waiting, pendingLetter{settler: t, reason: reason})
	b.mu.Unlock()
	signal(b.wake)
}

// take returns the next group, or how long to wait for one; 0: until add.
func (b *deadLetterer) take(now time.Time) (group []pendingLetter, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.single = !b.single
	if b.single || len(b.waiting) == 0 {
		for i, g := range b.failed {
			left := g.due.Sub(now)
			if left <= 0 {
				b.failed = slices.Delete(b.failed, i, i+1)
				return []pendingLetter{g}, 0
			}
			if wait == 0 || left < wait {
				wait = left
			}
		}
	}
	n, size := 0, 0
	for n < min(len(b.waiting), maxLetters) {
		size += len(b.waiting[n].settler.message.Body)
		if n > 0 && size > maxLetterBytes {
			break
		}
		n++
	}
	group = b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return group, wait
}

// run stores letters until ctx ends.
func (b *deadLetterer) run(ctx context.Context) {
	for ctx.Err() == nil {
		group, wait := b.take(time.Now())
		if len(group) > 0 {
			b.store(ctx, group)
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-b.wake:
		case <-due:
		case <-ctx.Done():
		}
	}
}

// store handles one group. What failed waits for its next try, unacknowledged:
// nothing is lost.
func (b *deadLetterer) store(ctx context.Context, group []pendingLetter) {
	c := b.consumer
	live, letters := group[:0], make([]Letter, 0, len(group))
	for _, g := range group {
		if g.settler.session.over() {
			g.settler.drop()
			b.noteFailure(&g, nil)
			continue
		}
		live, letters = append(live, g), append(letters, g.letter())
	}
	if len(letters) == 0 {
		return
	}
	publishing, cancel := context.WithTimeout(ctx, letterTimeout)
	defer cancel()
	for i, err := range c.ports.DeadLetters.Store(publishing, letters) {
		if err == nil {
			err = failpoint.Hit(failpoint.LetterConfirmed)
		}
		b.noteFailure(&live[i], err)
		if err == nil {
			c.Stats.DeadLetters.Add(1)
			live[i].settler.ack()
		}
	}
	b.logUnstored(ctx)
}

// noteFailure keeps a letter that was not stored for another try, and forgets one that
// is not to be stored any more.
func (b *deadLetterer) noteFailure(g *pendingLetter, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		if g.failures > 0 {
			b.unstored--
		}
		if b.unstored == 0 {
			b.cause = nil
		}
		return
	}
	b.cause = err
	g.due = time.Now()
	if g.failures++; g.failures == 1 {
		// Not its own fault, perhaps: the next try is at once.
		b.unstored++
		g.pause = backoff.Backoff{Min: b.consumer.config.Timing.BackoffMin, Max: b.consumer.config.Timing.BackoffMax}
	} else {
		g.due = g.due.Add(g.pause.Next())
	}
	b.failed = append(b.failed, *g)
}

// logUnstored logs what could not be stored, now and then.
func (b *deadLetterer) logUnstored(ctx context.Context) {
	n, cause := b.state()
	if cause == nil || ctx.Err() != nil || time.Since(b.told) < unstoredEvery {
		return
	}
	b.told = time.Now()
	b.consumer.ports.Log.Error("dead letters not stored; their messages stay unacknowledged and are tried again",
		slog.Int("messages", n), slog.Any("error", cause))
}

func (b *deadLetterer) state() (unstored int, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unstored, b.cause
}

func (g pendingLetter) letter() Letter {
	t := g.settler
	first := t.firstSeen
	if first == 0 { // it was never looked up, as it is no event or no longer one
		first = engine.MillisOf(t.arrived)
	}
	return Letter{
		Message: &t.message, Reason: g.reason, Retries: t.attempts, Failures: t.failures, FirstSeen: first,
	}
}
