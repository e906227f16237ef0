package rabbit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"keyfold/engine"
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

// DeadLetters keeps events that were given up.
type DeadLetters interface {
	// Store stores letters. The answer is aligned with them: nil once a letter
	// is safe, so that its original can be acknowledged.
	Store(ctx context.Context, letters []Letter) []error
}

const (
	maxLetters     = 256     // in one group
	maxLetterBytes = 4 << 20 // of bodies in one group
	// unstoredEvery is how often letters that cannot be stored are logged.
	unstoredEvery = time.Minute
)

// deadLetterer hands given-up events to the dead letters.
type deadLetterer struct {
	copies  copier
	letters DeadLetters
	stats   *ConsumerStats
	log     *slog.Logger

	mu       sync.Mutex
	unstored int   // letters that failed, also while on the way
	cause    error // of the last failure; nil while unstored is 0

	told time.Time // only used by run: when failures were last logged
}

func newDeadLetterer(letters DeadLetters, timing Timing, stats *ConsumerStats, log *slog.Logger) *deadLetterer {
	d := &deadLetterer{letters: letters, stats: stats, log: log}
	d.copies = copier{
		target: d, maxGroup: maxLetters, maxBytes: maxLetterBytes,
		alone: true, pauseMin: timing.BackoffMin, pauseMax: timing.BackoffMax,
		wake: make(chan struct{}, 1),
	}
	return d
}

// add has a letter of a message stored.
func (d *deadLetterer) add(t *settler, reason string) {
	d.copies.add(pendingCopy{settler: t, reason: reason})
}

func (d *deadLetterer) publish(ctx context.Context, group []pendingCopy) []error {
	letters := make([]Letter, len(group))
	for i, p := range group {
		letters[i] = Letter{
			Message: &p.message, Reason: p.reason, Retries: p.attempts, Failures: p.failures,
			// An event that was refused was never looked up.
			FirstSeen: cmp.Or(p.firstSeen, engine.MillisOf(p.arrived)),
		}
	}
	return d.letters.Store(ctx, letters)
}

func (d *deadLetterer) settle(p *pendingCopy, err error) (again bool) {
	if err == nil {
		err = failpoint.Hit(failpoint.LetterConfirmed)
	}
	again = err != nil && !errors.Is(err, errStale)
	d.count(p.tries > 0, again, err)
	switch {
	case err == nil:
		d.stats.DeadLetters.Add(1)
		p.ack()
	case !again:
		p.drop()
	}
	return again
}

// count keeps the number of letters that failed and are still to be stored.
func (d *deadLetterer) count(before, now bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now {
		d.cause = err
	}
	if now && !before {
		d.unstored++
	}
	if before && !now {
		d.unstored--
	}
	if d.unstored == 0 {
		d.cause = nil
	}
}

// published logs letters that could not be stored, now and then.
func (d *deadLetterer) published(ctx context.Context, _ int) (pause time.Duration) {
	n, cause := d.state()
	if cause == nil || ctx.Err() != nil || time.Since(d.told) < unstoredEvery {
		return 0
	}
	d.told = time.Now()
	d.log.Error("dead letters not stored; their messages stay unacknowledged and are tried again",
		slog.Int("messages", n), slog.Any("error", cause))
	return 0
}

func (d *deadLetterer) state() (unstored int, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unstored, d.cause
}
