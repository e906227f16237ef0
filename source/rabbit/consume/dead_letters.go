package consume

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/engine/failpoint"
	"keyfold/engine/terse"
	"keyfold/source/rabbit"
)

// Letter is an event that was given up.
type Letter struct {
	Message   *rabbit.Original
	Reason    string           // stable, snake_case
	Retries   int              // attempts after the first one
	Failures  []rabbit.Failure // at least one, the oldest first
	FirstSeen engine.Millis

	Subject Subject // set by Store; its ID is what the letter is found by
}

// DeadLetters keeps events that were given up.
type DeadLetters interface {
	// Store stores letters and sets their subjects. The answer is aligned with them: nil once a letter
	// is safe, so that its original can be acknowledged.
	Store(ctx context.Context, letters []Letter) []error
}

const (
	maxLetters     = 256     // in one group
	maxLetterBytes = 4 << 20 // of bodies in one group
)

// deadLetterer hands given-up events to the dead letters.
type deadLetterer struct {
	copies  copier
	letters DeadLetters
	names   rabbit.Names
	stats   *Stats
	log     *slog.Logger

	unstored  terse.Fault
	malformed terse.Repeats
}

func newDeadLetterer(letters DeadLetters, timing rabbit.Timing, stats *Stats, log *slog.Logger) *deadLetterer {
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
	errs := d.letters.Store(ctx, letters)
	for i := range letters {
		group[i].subject = letters[i].Subject
	}
	return errs
}

func (d *deadLetterer) confirmed() error { return failpoint.Hit(failpoint.LetterConfirmed) }

func (d *deadLetterer) settle(p *pendingCopy, err error) (again bool) {
	switch {
	case err == nil:
		d.stats.DeadLetters.Add(1)
		d.logMalformed(p)
		p.end = settlement{outcome: engine.Dead, reason: p.reason}
		p.ack()
	case errors.Is(err, errStale):
		p.drop()
	default:
		return true
	}
	return false
}

// published logs when letters begin to fail, and when none waits any more.
func (d *deadLetterer) published(int, error) (pause time.Duration) {
	n, cause := d.copies.unconfirmed()
	if n == 0 {
		if lasted, was := d.unstored.Ends(); was {
			d.log.Info("no dead letter waits any more", slog.Duration("away_for", lasted))
		}
	} else if d.unstored.Begins(cause) {
		d.log.Error("dead letters not stored: their messages stay unacknowledged",
			slog.Int("messages", n), slog.Any("error", cause), slog.String("hint", causes.Hint(cause, "they are published again by themselves")))
	}
	return 0
}

// logMalformed logs a refused message once its letter is stored, and those that are
// alike once a minute.
func (d *deadLetterer) logMalformed(p *pendingCopy) {
	if !p.malformed || !d.log.Enabled(context.Background(), slog.LevelError) {
		return
	}
	reason, err := p.reason, p.failures[len(p.failures)-1].Err
	subject := p.subject
	id, trace := rabbit.Cut(subject.ID, rabbit.MaxShortString), p.message.Trace()
	d.malformed.Add(reason, func(n int) {
		attrs := []any{
			slog.String("reason", reason), slog.String("message_id", id), slog.Any("error", err),
			slog.String("hint", d.names.ShowCommand().String()+" with the message_id shows it"),
		}
		if subject.User != "" {
			attrs = append(attrs, subject.LogUser())
		}
		for _, attr := range trace.LogAttrs() {
			attrs = append(attrs, attr)
		}
		if n > 1 {
			attrs = append(attrs, slog.Int("count", n))
		}
		d.log.Error("malformed event dead-lettered", attrs...)
	})
}
