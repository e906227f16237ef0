package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// State is what a breaker stands at.
type State struct {
	Open bool
	// Expired: it has been open for longer than callers wait.
	Expired bool
	Since   time.Time // of the last opening or closing; zero before the first
	Cause   error     // why it is open: the last failure of a call or a probe
	Opened  int64     // times, since the start
	Probes  int64     // since the start
}

// Errors that [Breaker.Wait] returns besides the context's.
var (
	// ErrExpired: the store has been away for longer than events are held.
	ErrExpired = errors.New("held for too long")
	// ErrClosed: the worker is stopping and does not wait for the store.
	ErrClosed = errors.New("stopping")
)

// Breaker guards one store. It is safe for concurrent use. Close ends it.
type Breaker struct {
	config  Config
	probe   func(context.Context) error
	changed func(State)

	life context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup

	telling sync.Mutex // one call of changed at a time
	share   Share      // of all groups' calls

	mu     sync.Mutex
	state  State
	closed bool // by Close

	lastCall time.Time // when it ended
	groups   []*CallGroup
	moved    chan struct{} // closed and replaced whenever a waiter may go on
}

// CallGroup counts the failures of one kind of call. Reads and writes have a group
// each, so that successful reads cannot hide failing writes. Its fields are under
// the breaker's mu.
type CallGroup struct {
	b        *Breaker
	rest     bool        // it is that of the probes at rest, which are no part of the share
	failures int         // in a row
	calls    int         // under way
	silence  *time.Timer // runs while calls are under way
}

// Group returns a new group of calls.
func (b *Breaker) Group() *CallGroup {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &CallGroup{b: b}
	b.groups = append(b.groups, l)
	return l
}

// New returns a closed breaker. probe is one real write, acknowledged as those
// of the callers are. changed is told the state after every change, one at a
// time, the newest last; it must not call the breaker's Close. It may be nil.
func New(config Config, probe func(context.Context) error, changed func(State)) (*Breaker, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if changed == nil {
		changed = func(State) {}
	}
	life, stop := context.WithCancel(context.Background())
	b := &Breaker{config: config, probe: probe, changed: changed, life: life, stop: stop, moved: make(chan struct{})}
	if config.Rest > 0 {
		b.work.Go(b.watchRest)
	}
	return b, nil
}

// State returns what the breaker stands at.
func (b *Breaker) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// Failing returns which share of the last minutes' calls failed, nil where it is small. It is
// for a closed breaker: what an open one knows is in its state.
func (b *Breaker) Failing() error { return b.share.Err() }

// Wait returns as soon as the breaker is closed, and whether it was open before.
// Errors: ErrExpired, ErrClosed, the context's; the first two carry why the
// breaker is open.
func (b *Breaker) Wait(ctx context.Context) (waited bool, err error) {
	for {
		b.mu.Lock()
		state, closed, moved := b.state, b.closed, b.moved
		b.mu.Unlock()
		switch {
		case !state.Open:
			return waited, ctx.Err() // a caller that is told to stop asks nothing any more
		case closed:
			return waited, fmt.Errorf("%w: %w", ErrClosed, state.Cause)
		case state.Expired:
			return waited, fmt.Errorf("%w: %w", ErrExpired, state.Cause)
		}
		waited = true
		select {
		case <-moved:
		case <-ctx.Done():
			return waited, ctx.Err()
		}
	}
}

// Begin notes that a call is made. Each needs its End, or its Leave.
func (l *CallGroup) Begin() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.calls++
	if l.calls == 1 {
		l.watchSilence()
	}
}

// End notes how a call ended: nil is a success, which includes every answer of a
// working store, an error a failure of the store.
func (l *CallGroup) End(err error) {
	b := l.b
	if !l.rest {
		b.share.Note(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.left()
	b.lastCall = time.Now()
	if err == nil {
		l.failures = 0
		if l.calls > 0 {
			l.watchSilence()
		}
		return
	}
	l.failures++
	if b.state.Open {
		b.state.Cause = err
	} else if l.failures >= b.config.Failures {
		b.open(err)
	}
}

// Leave notes that a call's caller went before the store answered, which says nothing of the
// store. It takes the place of End.
func (l *CallGroup) Leave() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.left()
}

// left notes that a call is over. The caller holds mu.
func (l *CallGroup) left() {
	l.calls--
	if l.calls == 0 {
		l.silence.Stop()
	}
}

// watchSilence starts the time of silence anew. The caller holds mu.
func (l *CallGroup) watchSilence() {
	b := l.b
	if l.silence != nil {
		l.silence.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(b.config.Silence, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		// A timer that was stopped too late says nothing.
		if l.silence == timer && l.calls > 0 && !b.state.Open {
			b.open(fmt.Errorf("no answer for %v", b.config.Silence))
		}
	})
	l.silence = timer
}

// open opens the breaker and starts the probing. The caller holds mu.
func (b *Breaker) open(cause error) {
	b.state.Open, b.state.Expired = true, false
	b.state.Since, b.state.Cause = time.Now(), cause
	b.state.Opened++
	if !b.closed { // a worker that stops holds what it cannot write, and probes no more
		b.work.Go(b.recover)
	}
}

// move lets waiters look again. The caller holds mu.
func (b *Breaker) move() {
	close(b.moved)
	b.moved = make(chan struct{})
}

// tell passes the state on: what it is now, so that a change that comes
// meanwhile is not overwritten by an older one.
func (b *Breaker) tell() {
	b.telling.Lock()
	defer b.telling.Unlock()
	b.changed(b.State())
}

// Close ends the probing and every wait.
func (b *Breaker) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		b.move()
	}
	for _, l := range b.groups {
		if l.silence != nil && l.calls == 0 {
			l.silence.Stop()
		}
	}
	b.mu.Unlock()
	b.stop()
	b.work.Wait()
}
