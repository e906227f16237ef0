package sqlfile

import (
	"context"
	"fmt"
	"sync/atomic"

	"keyfold/engine"
)

// job is one function in the writer's queue.
type job struct {
	fn   func(*Tx) error
	done func(error) // called once, on the writer's goroutine, unless withdrawn

	claimed atomic.Bool
	err     error // the writer's: what fn returned
}

// claim gives the job to the writer that runs it or to the caller that withdraws
// it, to the one that comes first.
func (j *job) claim() bool { return j.claimed.CompareAndSwap(false, true) }

// Write queues fn, waits until it and everything queued before it has run, and
// returns nil once its writes are on disk. fn runs on the writer's goroutine,
// once or never, and must neither wait for another Write nor exit its goroutine.
//
// An error of fn, or a panic in it, undoes what fn wrote and is returned. When
// ctx ends while fn is queued, fn never runs and ctx's error is returned; when
// it ends later, the error wraps [engine.ErrUnknown], and fn may be running
// still: it must not write to what its caller reads after an error. After
// [File.Close] the error is [ErrClosed].
func (f *File) Write(ctx context.Context, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	answer := make(chan error, 1)
	j := &job{fn: fn, done: func(err error) { answer <- err }}
	if !f.writer.enqueue(j) {
		return ErrClosed
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	if j.claim() {
		return fmt.Errorf("%s: not written: %w", f.path, ctx.Err())
	}
	select {
	case err := <-answer:
		return err
	default:
		return fmt.Errorf("%w: %s: %w while writing", engine.ErrUnknown, f.path, ctx.Err())
	}
}

// Enqueue is Write without waiting: fn has its place in the queue when Enqueue
// returns. done is given what Write would return, once, on another goroutine:
// the writer's, so it must not block.
func (f *File) Enqueue(fn func(*Tx) error, done func(error)) {
	if !f.writer.enqueue(&job{fn: fn, done: done}) {
		go done(ErrClosed)
	}
}
