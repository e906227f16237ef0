package consume

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/causes"
	"keyfold/source/rabbit"
)

// unauthorizedLimit is how many refusals in a row Run takes before its first session for
// a configuration fault: a broker that is starting or dying can look like one.
const unauthorizedLimit = 2

// Run consumes until ctx ends, opening a new session, after a backoff, whenever
// one is lost. Then it cancels the consumer and returns nil with the connection
// still open, so that what was handed over can be settled: call [Consumer.Close]
// next, also after an error.
//
// chunks makes the chunk that a channel fills. While its HandOver blocks, the
// consumer reads nothing more, and the broker sends no more than the prefetch. What
// was not settled goes back to the broker at Close.
//
// Errors are those of HandOver, and configuration faults (credentials, virtual
// host, a missing queue) met before the first session. Later ones are logged,
// told by [Consumer.Ready], and tried again: operators repair brokers.
func (c *Consumer) Run(ctx context.Context, chunks func() Chunk) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stopWork = stop
	c.work.Go(func() { c.deadLetters.copies.run(work) })

	pause := backoff.Backoff{Min: c.config.Timing.BackoffMin, Max: c.config.Timing.BackoffMax}
	established, refusals := false, 0
	for {
		s, err := c.open(ctx)
		c.live.Store(s)
		switch {
		case err != nil:
		case c.config.Partitions != nil:
			err = c.consumePartitions(ctx, s, chunks)
		default:
			err = c.consume(ctx, s, chunks)
		}
		refused, ok := errors.AsType[deliverError](err)
		if rabbit.IsClosed(ctx.Done()) {
			refused.error, ok = nil, true
		}
		if ok {
			c.leave(s)
			return refused.error
		}
		if s != nil {
			if c.worked() {
				established = true
				pause.Reset()
			}
			c.finish(ctx, s)
			err = s.explain(err)
		}
		if errors.Is(err, errGiveBack) {
			continue
		}
		missing := c.config.Optional && (engine.ReasonOf(err) == rabbit.ReasonQueueMissing || errors.Is(err, errQueueGone))
		if missing {
			err = ErrNoQueue
		}
		c.setStatus(err)
		if engine.KindOf(err) != engine.Configuration {
			refusals = 0
		} else if refusals++; refusals == unauthorizedLimit && !established {
			return err
		}
		wait := pause.Next()
		if !missing {
			c.logFault(err, wait)
		}
		backoff.Sleep(ctx, wait)
	}
}

// logFault logs a fault when it begins. Its end is the line "consumer started".
func (c *Consumer) logFault(err error, wait time.Duration) {
	if !c.fault.Begins(err) {
		return
	}
	c.ports.Log.Error("consumer not connected", slog.String("kind", engine.KindOf(err).String()), slog.Any("error", err),
		slog.Duration("retry_in", wait), slog.String("hint", causes.Hint(err, "the consumer connects again by itself, and no event is lost")))
}

// consume hands over what the broker sends until ctx or the session ends.
func (c *Consumer) consume(ctx context.Context, s *session, chunks func() Chunk) error {
	defer c.reading.Store(false)
	for {
		c.reading.Store(false)
		changed, err := c.passGate(ctx, s)
		if err != nil {
			return err
		}
		c.reading.Store(true)
		s.prefetch.Store(int64(c.sizes.capacity()))
		s.resizing.Store(false)
		for _, l := range s.channels {
			if err := l.subscribe(ctx); err != nil {
				return err
			}
		}
		c.consuming(s)
		if err := s.read(ctx, changed, chunks); !errors.Is(err, errPaused) {
			return err
		}
	}
}

// consuming notes that the session consumes, and tells it once.
func (c *Consumer) consuming(s *session, more ...any) {
	if c.Ready() == nil {
		return
	}
	c.setStatus(nil)
	attrs := append([]any{
		slog.String("queue", c.config.Names.Queue), slog.String("broker", rabbit.Redact(c.config.DSN)),
		slog.Uint64("generation", s.generation), slog.Int("prefetch", c.config.Prefetch),
	}, more...)
	if lasted, was := c.fault.Ends(); was {
		attrs = append(attrs, slog.Duration("away_for", lasted))
	}
	c.ports.Log.Info("consumer started", attrs...)
}

// passGate waits while the consumer is paused. After a pause it starts anew
// where messages were held, since only a new channel brings them back, and
// otherwise waits until half of the prefetch (a quarter where ordered), and of the bytes, is free: a consumer's prefetch is
// fixed when it starts, and what its channel holds already comes on top of it.
// What waits in process for its next attempt comes again through the reader only:
// where that is most of the prefetch, it is given back too.
//
// changed is closed by whatever the gate is told after this reading of it.
func (c *Consumer) passGate(ctx context.Context, s *session) (changed <-chan struct{}, err error) {
	defer c.resuming.Store(false)
	for {
		shut, changed := c.gate.state()
		if c.gate.takeGiveBack() && s.unacked() > 0 {
			return nil, errGiveBack
		}
		var poll <-chan time.Time
		if !shut {
			// Both are polled: verdicts come in meanwhile.
			underHalf := c.sizes.underHalf(s.bytes.Load())
			inProcess := int(s.waitingInProcess.Load())
			if s.toGiveBack.Load() > 0 || inProcess > c.config.Prefetch/2 || !underHalf && inProcess > 0 {
				return nil, errGiveBack
			}
			if underHalf && s.unacked() <= c.mayHold() {
				return changed, nil
			}
			poll = time.After(ackInterval)
			c.resuming.Store(true)
			if s.pressed != nil {
				s.pressed() // windows may hold what it waits for
			}
		}
		select {
		case <-changed:
		case <-poll:
		case <-s.ended:
			return nil, s.reason
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// mayHold returns how many held messages keep no consumer from starting. An ordered one starts
// anew for a quarter of its prefetch, without a wait for the rest: see [consumerChannel.refill].
func (c *Consumer) mayHold() int {
	if c.config.Ordered {
		return c.config.Prefetch - max(1, c.config.Prefetch/4)
	}
	return c.config.Prefetch / 2
}

// worked reports whether the session got as far as consuming.
func (c *Consumer) worked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status == nil
}

// leave keeps the last session for Close.
func (c *Consumer) leave(s *session) {
	c.setStatus(errStopped)
	c.live.Store(nil)
	if s == nil {
		return
	}
	// A partition is to go to another worker once its windows are written: its consumer
	// stays until the connection is closed.
	if c.config.Partitions == nil {
		s.unsubscribe()
	}
	c.last = s
}

// finish closes a session that was lost or is given up. A verdict that comes
// from now on is dropped.
func (c *Consumer) finish(ctx context.Context, s *session) {
	c.live.Store(nil)
	s.end(errGiveBack)
	ctx, cancel := boundedContext(ctx, c.config.Timing.Connect)
	defer cancel()
	s.close(ctx)
}
