package reader

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"keyfold/engine/terse"
)

// Reader reads streams. It is used once: Run, and when Run has returned, Close. The other
// methods may be called from any goroutine at any time.
type Reader struct {
	Stats Stats

	config Config
	ports  Ports
	held   *held

	fault terse.Fault // of the share

	mu      sync.Mutex
	streams []*streamReader // under mu; a change makes a new slice
	share   error           // under mu: why there is no share; nil while there is one
	shut    bool            // under mu: nothing is handed over
	opened  chan struct{}   // under mu: closed when shut ends
}

// New returns a reader that connects when it is run.
func New(config Config, ports Ports) *Reader {
	ports.Log = ports.Log.With("component", "streams")
	config.Client.Timing = config.Client.Timing.OrDefaults()
	return &Reader{config: config, ports: ports, held: newHeld(config.MaxHeldBytes), opened: make(chan struct{}), share: errNotReading}
}

// saveEvery is how often positions are stored. What lies between is read again after a crash.
const saveEvery = 5 * time.Second

// Run reads the worker's share of the streams until ctx ends. An error is one of deliver, which
// ends all reading.
func (r *Reader) Run(ctx context.Context, deliver deliver) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var working sync.WaitGroup
	working.Go(func() { r.savePositions(ctx) })
	s := sharing{reader: r, deliver: deliver, share: r.ports.Share, fail: cancel}
	s.run(ctx)
	working.Wait()
	if refused, ok := errors.AsType[deliverError](context.Cause(ctx)); ok {
		return refused.error
	}
	return nil
}

// deliverError is an error of the reader's user.
type deliverError struct{ error }

func (r *Reader) savePositions(ctx context.Context) {
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		for _, s := range r.all() {
			s.save(ctx)
		}
	}
}

func (r *Reader) all() []*streamReader {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams
}

// Pause has nothing handed over. What is held stays, and what is on the way waits.
func (r *Reader) Pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
}

// Resume goes on.
func (r *Reader) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		r.shut = false
		close(r.opened)
		r.opened = make(chan struct{})
	}
}

// passGate waits while the reader is paused.
func (r *Reader) passGate(ctx context.Context) error {
	for {
		r.mu.Lock()
		shut, opened := r.shut, r.opened
		r.mu.Unlock()
		if !shut {
			return ctx.Err()
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// GiveBack does nothing: a stream keeps what was read of it, and no other worker waits for it.
func (r *Reader) GiveBack() {}

var (
	errNotReading = errors.New("streams: not connected yet")
	errShareLost  = errors.New("streams: the connection to the broker that has the worker counted was lost")
)

// Ready returns nil while all streams are read, and otherwise why one is not.
func (r *Reader) Ready() error {
	r.mu.Lock()
	err := r.share
	r.mu.Unlock()
	if err != nil {
		return err
	}
	for _, s := range r.all() {
		if err := s.ready(); err != nil {
			return err
		}
	}
	return nil
}

// Close waits until what was handed over is settled, stores the positions, and ends the
// sessions. What is not settled when ctx ends is read again.
func (r *Reader) Close(ctx context.Context) error {
	var errs []error
	for _, s := range r.all() {
		errs = append(errs, s.close(ctx))
	}
	r.ports.Share.Close(ctx)
	return errors.Join(errs...)
}

func (r *Reader) add(s *streamReader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams = append(slices.Clone(r.streams), s)
}

func (r *Reader) remove(s *streamReader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams = slices.DeleteFunc(slices.Clone(r.streams), func(other *streamReader) bool { return other == s })
}

func (r *Reader) setShareFault(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.share = err
}

func (r *Reader) closeWindows() {
	if r.ports.CloseWindows != nil {
		r.ports.CloseWindows()
	}
}
