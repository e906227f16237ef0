package main

import (
	"context"
	"errors"
	"io"
	"time"

	"keyfold/engine/profile"
	"keyfold/source/inbox"
)

// replayChunk is how many events share a transaction of the inbox.
const replayChunk = 1024

// source yields message bodies until io.EOF.
type source func() ([]byte, error)

// bodies makes a source of bodies in memory.
func bodies(all [][]byte) source {
	return func() ([]byte, error) {
		if len(all) == 0 {
			return nil, io.EOF
		}
		next := all[0]
		all = all[1:]
		return next, nil
	}
}

// replay reads events, makes them durable in the inbox and hands the new ones to
// the windows.
type replay struct {
	*runtime
	*input
	pace *realtimeReplay // nil: as fast as it goes
}

// run reads in one goroutine and stores in another, so that parsing a chunk
// does not wait for the disk.
func (r *replay) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	chunks := make(chan []inbox.Arrival, 2)
	var readErr error
	go func() {
		defer close(chunks)
		readErr = r.read(ctx, chunks)
	}()
	for chunk := range chunks {
		if err := r.store(ctx, chunk); err != nil {
			cancel(err)
			for range chunks { // the reader waits for room in chunks before it ends
				continue
			}
			return err
		}
	}
	return readErr
}

func (r *replay) read(ctx context.Context, chunks chan<- []inbox.Arrival) error {
	for {
		chunk, err := r.readChunk(ctx)
		if len(chunk) > 0 {
			select {
			case chunks <- chunk:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *replay) readChunk(ctx context.Context) ([]inbox.Arrival, error) {
	var chunk []inbox.Arrival
	for len(chunk) < replayChunk {
		if err := context.Cause(ctx); err != nil {
			return chunk, err
		}
		body, err := r.next()
		if err != nil {
			return chunk, err
		}
		a := inbox.Arrival{Body: body, Origin: inbox.Origin{Name: r.name, Line: r.line()}}
		a.Event, a.Err = profile.ParseEvent(body, time.Now())
		chunk = append(chunk, a)
		if r.pace != nil {
			return chunk, nil // one by one, each at its time
		}
	}
	return chunk, nil
}

func (r *replay) store(ctx context.Context, chunk []inbox.Arrival) error {
	if r.pace != nil && chunk[0].Err == nil {
		if err := r.pace.wait(ctx, chunk[0].Event.OccurredAt); err != nil {
			return err
		}
	}
	_, deliveries, err := r.inbox.Add(ctx, chunk)
	if err != nil {
		// Nothing can be made durable: waiting for open windows would be
		// waiting for the same store.
		r.fail(err)
		return err
	}
	read := r.events.Add(int64(len(chunk)))
	if err := r.deliver(ctx, deliveries); err != nil {
		return err
	}
	r.bar.At(int(read))
	return nil
}
