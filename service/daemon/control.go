package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/causes"
	"keyfold/engine/terse"
)

// Control decides whether a worker consumes: not while its store is away, not for a
// time after a configuration fault, and not while a condition of its work does not
// hold.
type Control struct {
	Log *slog.Logger
	// Consumers and Others are paused; set before anything is told.
	Consumers []Consumer
	Others    []Pauser
	HoldMax   time.Duration // for which events wait for the store

	fault      configFault
	storeFault terse.Fault
	pause      pause

	mu    sync.Mutex
	unfit error
	since time.Time // of unfit
}

const goesOn = "the worker goes on by itself, and no event is lost"

// Pause pauses all.
func (c *Control) Pause() {
	for _, consumer := range c.Consumers {
		consumer.Pause()
	}
	for _, other := range c.Others {
		other.Pause()
	}
}

// Resume resumes all.
func (c *Control) Resume() {
	for _, other := range c.Others {
		other.Resume()
	}
	for _, consumer := range c.Consumers {
		consumer.Resume()
	}
}

// Ready returns nil while events are consumed, and otherwise why not. store is the state
// of the store's breaker.
func (c *Control) Ready(store breaker.State) error {
	if err := c.fault.err(); err != nil {
		return err
	}
	if store.Open {
		return fmt.Errorf("store: away since %s: %w", store.Since.UTC().Format(time.RFC3339), store.Cause)
	}
	c.mu.Lock()
	err := c.unfit
	c.mu.Unlock()
	for _, consumer := range c.Consumers {
		if err == nil {
			err = consumer.Ready()
		}
	}
	return err
}

// LastFault returns the last configuration fault, also once it is cured; nil for none.
func (c *Control) LastFault() error { return c.fault.newest() }

// Stop ends the waiting for the cure of a configuration fault.
func (c *Control) Stop() { c.fault.stop() }

// FaultFound pauses the consumers. No event caused the fault, so none is
// dead-lettered, and none is tried again before the pause is over.
func (c *Control) FaultFound(err error) {
	f := &c.fault
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil || f.stopped {
		return
	}
	// One that comes soon after a pause is the fault before, which goes on.
	if !f.continues(err) {
		c.Log.Error("consumer paused by a configuration fault", slog.Duration("retry_in", FaultPause), slog.Any("error", err),
			slog.String("hint", causes.Hint(err, goesOn)))
	}
	if f.began.IsZero() {
		f.began = time.Now()
	}
	f.current, f.last = err, err
	c.pause.set(c, badConfiguration, true)
	f.after(FaultPause, c.tryConsuming)
}

// tryConsuming resumes the consumers. If no fault comes for a while, the last one is
// over. The lock is held: a fault that comes now must find the consumers resumed, and
// pause them again.
func (c *Control) tryConsuming() {
	f, resumed := &c.fault, time.Now()
	f.current = nil
	c.pause.set(c, badConfiguration, false)
	f.after(FaultPause, func() {
		if f.current == nil {
			c.Log.Info("the configuration fault is over: the consumer goes on", slog.Duration("away_for", resumed.Sub(f.began)))
			f.began = time.Time{}
		}
	})
}

// Probe asks whether the store takes writes again. A store that was emptied meanwhile
// answers with a configuration fault, which is told with its cure: no time ends it.
func (c *Control) Probe(probe func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := probe(ctx)
		if engine.KindOf(err) == engine.Configuration {
			c.FaultFound(err)
		}
		return err
	}
}

// StoreChanged follows the store's breaker: while it is open the worker consumes
// nothing, and events that it has held for too long go back to the broker.
func (c *Control) StoreChanged(s breaker.State) {
	switch {
	case !s.Open:
		if lasted, was := c.storeFault.Ends(); was {
			c.storeLog().Info("store is back: consumer resumed", slog.Duration("away_for", lasted))
		}
	case s.Expired:
		c.storeLog().Warn("store still down: held events go back to the broker", slog.Time("since", s.Since), slog.Any("error", s.Cause), slog.String("hint", causes.Hint(s.Cause, goesOn)))
		for _, consumer := range c.Consumers {
			consumer.GiveBack()
		}
	default:
		if c.storeFault.Begins(s.Cause) {
			c.storeLog().Error("store down: consumer paused, received events are held",
				slog.Duration("hold_max", c.HoldMax), slog.Any("error", s.Cause), slog.String("hint", causes.Hint(s.Cause, goesOn)))
		}
	}
	c.pause.set(c, storeAway, s.Open)
}

func (c *Control) storeLog() *slog.Logger { return c.Log.With("component", "store") }

// Unfit says that a condition of the work does not hold, and why; nil: it holds.
func (c *Control) Unfit(err error) {
	c.mu.Lock()
	before := c.unfit
	if before == nil && err != nil {
		c.since = time.Now()
	}
	c.unfit = err
	lasted := time.Since(c.since)
	c.mu.Unlock()
	switch {
	case err != nil && (before == nil || engine.ReasonOf(before) != engine.ReasonOf(err)):
		c.Log.Error("consumer paused", slog.Any("error", err),
			slog.String("hint", causes.Hint(err, goesOn)))
	case err == nil && before != nil:
		c.Log.Info("the consumer goes on", slog.Duration("away_for", lasted))
	}
	c.pause.set(c, unfit, err != nil)
}
