package rabbit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
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

func (d *deadLetterer) confirmed() error { return failpoint.Hit(failpoint.LetterConfirmed) }

func (d *deadLetterer) settle(p *pendingCopy, err error) (again bool) {
	switch {
	case err == nil:
		d.stats.DeadLetters.Add(1)
		p.ack()
	case errors.Is(err, errStale):
		p.drop()
	default:
		return true
	}
	return false
}

// published logs letters that could not be stored, now and then.
func (d *deadLetterer) published(int, error) (pause time.Duration) {
	n, cause := d.copies.unconfirmed()
	if n > 0 && time.Since(d.told) >= unstoredEvery {
		d.told = time.Now()
		d.log.Error("dead letters not stored: their messages stay unacknowledged",
			slog.Int("messages", n), slog.Any("error", cause))
	}
	return 0
}
