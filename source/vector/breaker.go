package vector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/breaker"
)

// BreakerConfig holds the settings of a [Breaker].
type BreakerConfig struct {
	// Failures is how many failed calls in a row open it. Calls with a phrase in common
	// count as one: the phrase may be at fault.
	Failures int
	// OpenFor is how long it stays open before one call may try.
	OpenFor time.Duration
	// LongestPause is the longest pause asked for by the other side that calls
	// wait out. A longer one opens the breaker for as long.
	LongestPause time.Duration
	// Changed hears of every opening and closing, and of a failure with another reason
	// while the breaker is open; may be nil. It must not call the breaker's Embed.
	Changed func(breaker.State)
}

// DefaultBreakerConfig opens after 5 failures in a row, for 5 seconds at a time:
// well below the minute that parked events wait.
func DefaultBreakerConfig() BreakerConfig {
	return BreakerConfig{Failures: 5, OpenFor: 5 * time.Second, LongestPause: 2 * time.Second}
}

// Validate reports every fault at once.
func (c BreakerConfig) Validate() error {
	var faults engine.Faults
	faults.If(c.Failures < 1, "a breaker that opens after %d failures: it must be at least 1", c.Failures)
	faults.If(c.OpenFor <= 0, "a breaker that is open for %v: it must be above 0", c.OpenFor)
	faults.If(c.LongestPause < 0, "a longest pause of %v: it must not be negative", c.LongestPause)
	return faults.Err()
}

// maxPause bounds what another side can ask for: a date far off, out of a clock
// that is wrong, must not end searches until a restart.
const maxPause = 15 * time.Minute

// Breaker leaves an absent embedder alone. It opens after failures in a row of calls
// that have no phrase in common. Where as many calls failed, repeats among them, it
// asks for an ordinary phrase: that this fails too opens it, and that it is answered
// makes the failure the call's own ([ErrOwn]). It opens at once where more calls cannot help: on a configuration fault (a
// refused key), on [engine.ErrAway] (a spent quota) and on a long pause the
// other side asks for. While it is open every call is answered at once with an
// error that is [engine.ErrAway] and transient, whatever opened it: only the
// events that need the embedder wait. Then one call is let through, for an ordinary phrase,
// since another one may be at fault itself, and its success closes the breaker. A refused phrase is an answer, not a failure; a
// call whose context ended says nothing.
//
// While it is closed a failed call's error is what the embedder said. The call
// that opens it is answered as those after it.
type Breaker struct {
	Embedder
	config  BreakerConfig
	circuit *gobreaker.CircuitBreaker[[][]float32]
	share   breaker.Share
	row     failureRow

	// The circuit calls back under its own lock and takes this one: a
	// goroutine that holds this one must not call the circuit.
	mu            sync.Mutex
	tripNow       bool      // what was met last opens the circuit on its own
	cause         error     // what failed last
	since         time.Time // when it opened; not set while closed
	opened        int64     // times
	notBefore     time.Time // until then the other side wants no call
	changePending bool      // it opened, closed or fails for another reason, and Changed has not heard of it
}

var _ Embedder = (*Breaker)(nil)

// NewBreaker returns a breaker in front of an embedder.
func NewBreaker(config BreakerConfig, embedder Embedder) (*Breaker, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	b := &Breaker{Embedder: embedder, config: config}
	b.circuit = gobreaker.NewCircuitBreaker[[][]float32](gobreaker.Settings{
		MaxRequests:   1,
		Timeout:       config.OpenFor,
		ReadyToTrip:   b.opens,
		OnStateChange: b.changed,
		IsSuccessful:  answered,
		IsExcluded:    func(err error) bool { _, gone := errors.AsType[*canceledError](err); return gone },
	})
	return b, nil
}

// State returns whether the last thing known of the embedder is that it is away. Its
// cause is what failed last before it opened or while it is open; a configuration
// fault names its cure.
func (b *Breaker) State() breaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return breaker.State{Opened: b.opened}
	}
	return breaker.State{Open: true, Since: b.since, Cause: b.cause, Opened: b.opened}
}

// Failing returns which share of the last minutes' calls failed, nil where it is small. It is
// for a closed breaker: what an open one knows is in its state.
func (b *Breaker) Failing() error { return b.share.Err() }

// canceledError marks the failure of a call whose context has ended.
type canceledError struct{ error }

// Embed asks the embedder unless it is away.
func (b *Breaker) Embed(ctx context.Context, phrases []string) ([][]float32, error) {
	if err := b.pause(ctx); err != nil {
		return nil, err
	}
	if b.circuit.State() == gobreaker.StateHalfOpen {
		if _, err := b.execute(ctx, ordinary); !answered(err) {
			return nil, b.told(err)
		}
	}
	vectors, err := b.execute(ctx, phrases)
	if err != nil && b.row.suspects(b.config.Failures) && !b.State().Open {
		switch _, probed := b.execute(ctx, ordinary); {
		case answered(probed):
			return nil, fmt.Errorf("%w: %w", ErrOwn, err)
		case ctx.Err() == nil:
			err = probed
		}
	}
	if err == nil {
		return vectors, nil
	}
	return nil, b.told(err)
}

// told returns what a caller is told of a call that failed.
func (b *Breaker) told(err error) error {
	if gone, ok := errors.AsType[*canceledError](err); ok {
		return gone.error
	}
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return b.away()
	}
	if engine.KindOf(err) != engine.Permanent && b.State().Open {
		return b.away()
	}
	return err
}

// execute makes a call unless the circuit is open.
func (b *Breaker) execute(ctx context.Context, phrases []string) ([][]float32, error) {
	defer b.tell()
	return b.circuit.Execute(func() ([][]float32, error) {
		vectors, err := b.Embedder.Embed(ctx, phrases)
		if err != nil && ctx.Err() != nil {
			return nil, &canceledError{err}
		}
		b.note(phrases, err)
		return vectors, err
	})
}

// pause waits as long as the other side wants to be left alone, or says that it
// is away.
func (b *Breaker) pause(ctx context.Context) error {
	b.mu.Lock()
	wait, open := time.Until(b.notBefore), !b.since.IsZero()
	b.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	if open {
		return b.away()
	}
	backoff.Sleep(ctx, wait)
	return ctx.Err()
}

// note remembers what a failure says beyond having failed.
func (b *Breaker) note(phrases []string, err error) {
	b.row.note(phrases, err)
	if answered(err) {
		b.share.Note(nil)
		return
	}
	b.share.Note(err)
	pause := min(PauseOf(err), maxPause)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.since.IsZero() && engine.ReasonOf(b.cause) != engine.ReasonOf(err) {
		b.changePending = true
	}
	b.cause = err
	if until := time.Now().Add(pause); pause > 0 && until.After(b.notBefore) {
		b.notBefore = until
	}
	if pause > b.config.LongestPause || errors.Is(err, engine.ErrAway) || engine.KindOf(err) == engine.Configuration {
		b.tripNow = true
	}
}

// opens is asked after each failure while the circuit is closed.
func (b *Breaker) opens(gobreaker.Counts) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tripNow || b.row.ofAll(b.config.Failures)
}

func (b *Breaker) changed(_ string, from, to gobreaker.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tripNow = false
	switch {
	case from == gobreaker.StateClosed:
		b.since, b.changePending = time.Now(), true
		b.opened++
	case to == gobreaker.StateClosed:
		b.since, b.cause, b.notBefore, b.changePending = time.Time{}, nil, time.Time{}, true
		b.share.Forget()
	}
}

// tell reports a change outside of all locks.
func (b *Breaker) tell() {
	b.mu.Lock()
	news := b.changePending
	b.changePending = false
	b.mu.Unlock()
	if news && b.config.Changed != nil {
		b.config.Changed(b.State())
	}
}

// away is the answer while the breaker is open. It carries the cause's text but
// not its kind.
func (b *Breaker) away() error {
	s := b.State()
	if s.Cause == nil { // it closed in between
		return &engine.Error{Kind: engine.Transient, Reason: "embedder_away", Err: fmt.Errorf("embedder: %w", engine.ErrAway)}
	}
	return &engine.Error{Kind: engine.Transient, Reason: "embedder_away", Err: fmt.Errorf(
		"embedder is %w since %s: %v", engine.ErrAway, s.Since.UTC().Format(time.RFC3339), s.Cause)} //nolint:errorlint // its kind must not show
}
