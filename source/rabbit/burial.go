package rabbit

import (
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

// DeadLetters keeps what was given up.
type DeadLetters interface {
	// Bury stores letters. The answer is aligned with them: nil once a letter
	// is safe, so that its original can be acknowledged.
	Bury(ctx context.Context, letters []Letter) []error
}

const (
	burialTimeout = 30 * time.Second
	maxBurials    = 256 // at a time
)

// grave is a ticket that waits for its burial.
type grave struct {
	ticket *ticket
	reason string
}

// burial hands given-up events to the dead letters, one group at a time. Its
// queue is bounded by the prefetch: each entry is an unacknowledged message.
type burial struct {
	consumer *Consumer
	mu       sync.Mutex
	waiting  []grave
	wake     chan struct{}
}

func (b *burial) add(t *ticket, reason string) {
	b.mu.Lock()
	b.waiting = append(b.waiting, grave{t, reason})
	b.mu.Unlock()
	poke(b.wake)
}

func (b *burial) take() []grave {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxBurials)
	group := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return group
}

// run buries until ctx ends.
func (b *burial) run(ctx context.Context) {
	timing := b.consumer.config.Timing
	pause := backoff{min: timing.BackoffMin, max: timing.BackoffMax}
	for {
		group := b.take()
		if len(group) == 0 {
			select {
			case <-b.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := b.bury(ctx, group); err == nil {
			pause.reset()
		} else if !sleep(ctx, pause.next()) {
			return
		}
	}
}

// bury handles one group and returns the last failure. What failed waits for
// the next try, unacknowledged: nothing is lost.
func (b *burial) bury(ctx context.Context, group []grave) (failed error) {
	c := b.consumer
	live, letters := group[:0], make([]Letter, 0, len(group))
	for _, g := range group {
		if g.ticket.session.over() {
			g.ticket.drop()
			continue
		}
		live, letters = append(live, g), append(letters, g.letter())
	}
	if len(letters) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, burialTimeout)
	defer cancel()
	var again int
	for i, err := range c.ports.DeadLetters.Bury(ctx, letters) {
		if err == nil {
			err = failpoint.Hit(failpoint.LetterConfirmed)
		}
		if err != nil {
			failed = err
			again++
			b.add(live[i].ticket, live[i].reason)
			continue
		}
		c.Stats.DeadLetters.Add(1)
		live[i].ticket.ack()
	}
	if failed != nil && !errors.Is(ctx.Err(), context.Canceled) {
		c.ports.Log.Error("dead letters not stored; their messages stay unacknowledged and are tried again",
			slog.Int("messages", again), slog.Any("error", failed))
	}
	return failed
}

func (g grave) letter() Letter {
	t := g.ticket
	first := t.firstSeen
	if first == 0 { // it was never looked up, as it is no event or no longer one
		first = engine.MillisOf(t.arrived)
	}
	return Letter{
		Message: &t.message, Reason: g.reason, Retries: t.attempts, Failures: t.failures, FirstSeen: first,
	}
}
