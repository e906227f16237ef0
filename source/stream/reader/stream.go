package reader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/causes"
	"keyfold/engine/profile"
	"keyfold/engine/terse"
	"keyfold/source/rabbit"
	"keyfold/source/stream"
)

// streamReader reads one stream, session after session.
type streamReader struct {
	owner   *Reader
	stream  rabbit.Stream
	name    string
	deliver deliver
	log     *slog.Logger
	fault   terse.Fault // of reading

	mu     sync.Mutex
	status error            // under mu: nil while reading
	live   *session         // under mu: the newest
	stored profile.Position // under mu: as the store has it
}

func newStreamReader(owner *Reader, s rabbit.Stream, deliver deliver) *streamReader {
	name := owner.config.Names.StreamQueue(s)
	return &streamReader{
		owner: owner, stream: s, name: name, deliver: deliver, status: errNotReading,
		log: owner.ports.Log.With(slog.String("stream", name)),
	}
}

func (r *streamReader) names() rabbit.Names { return r.owner.config.Names }

func (r *streamReader) ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *streamReader) session() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live
}

// run reads until ctx ends. Its error is one of deliver.
func (r *streamReader) run(ctx context.Context) error {
	timing := r.owner.config.Client.Timing
	pause := backoff.Backoff{Min: timing.BackoffMin, Max: timing.BackoffMax}
	for ctx.Err() == nil {
		err := r.readOnce(ctx)
		if _, ok := errors.AsType[deliverError](err); ok {
			return err
		}
		if ctx.Err() == nil {
			r.waitAfter(ctx, err, &pause)
		}
	}
	r.setStatus(errClosed)
	return nil
}

// waitAfter tells why reading ended, and waits until it is tried again.
func (r *streamReader) waitAfter(ctx context.Context, err error, pause *backoff.Backoff) {
	if r.ready() == nil { // it got as far as reading
		pause.Reset()
	}
	r.setStatus(err)
	wait := pause.Next()
	if r.fault.Begins(err) {
		r.log.Error("stream not read", slog.String("kind", engine.KindOf(err).String()), slog.Any("error", err),
			slog.Duration("retry_in", wait), slog.String("hint", causes.Hint(err, "the stream is read again by itself, and no event is lost")))
	}
	backoff.Sleep(ctx, wait)
	_ = r.owner.passGate(ctx) // where it fails, so does the next reading
}

func (r *streamReader) setStatus(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = err
}

// begin returns where the next session begins: where the one before it was, or the store says.
func (r *streamReader) begin(ctx context.Context) (profile.Position, error) {
	if s := r.session(); s != nil {
		return s.position(), nil
	}
	at, err := r.owner.ports.Positions.LoadPosition(ctx, r.name)
	if err == nil {
		r.mu.Lock()
		r.stored = at
		r.mu.Unlock()
	}
	return at, err
}

// credit is how many chunks may be on their way.
const credit = 2

// identityTimeout is within what time a broker sends a chunk that it has.
const identityTimeout = 5 * time.Second

// readOnce reads until ctx or the session ends, and returns why it did.
func (r *streamReader) readOnce(ctx context.Context) error {
	at, err := r.begin(ctx)
	if err != nil {
		return err
	}
	conn, err := stream.DialLeader(ctx, r.owner.config.Client, r.name)
	if err != nil {
		return explain(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	s := r.newSession(at)
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	chunks := make(chan stream.Chunk)
	sub, err := conn.Subscribe(ctx, stream.Consume{Stream: r.name, From: from(at), Credit: credit, Handle: func(ctx context.Context, _ *stream.Subscription, c stream.Chunk) {
		select {
		case chunks <- c:
		case <-ctx.Done():
		}
	}})
	if err != nil {
		return explain(err)
	}
	r.mu.Lock()
	r.live = s
	r.mu.Unlock()
	go func() {
		select {
		case <-sub.Done():
			cancel(sub.Err())
		case <-s.ended:
			cancel(s.reason)
		case <-reading.Done():
		}
	}()
	err = r.readChunks(reading, s, sub, chunks)
	if ctx.Err() == nil { // else what is in hand is to be settled still
		s.fail(err)
	}
	return explain(err)
}

// crediting asks for chunks: a [stream.Subscription].
type crediting interface{ Credit(n uint16) error }

// readChunks hands over what comes.
func (r *streamReader) readChunks(ctx context.Context, s *session, sub crediting, chunks <-chan stream.Chunk) error {
	known := s.began.Chunk != (profile.Fingerprint{})
	first := time.NewTimer(identityTimeout)
	defer first.Stop()
	taken := uint16(0) // chunks that no credit was given for yet
	for {
		// Where no more fits, no chunk is taken; what waited in process for its next attempt is,
		// or what is held might wait for that.
		more, freed := chunks, r.owner.held.full()
		if freed != nil {
			r.owner.closeWindows()
			more = nil
		} else if taken > 0 {
			if err := sub.Credit(taken); err != nil {
				return err
			}
			taken = 0
		}
		var silent <-chan time.Time
		if known && !s.checked {
			silent = first.C
		} else {
			r.reads(s)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-freed:
		case <-silent:
			return s.changed(differs(s.began, nil))
		case <-s.outside.Due():
			s.deliveries = s.deliveries[:0]
			s.outside.TakeDue(s)
			if err := s.HandOver(ctx); err != nil {
				return deliverError{err}
			}
		case c := <-more:
			if err := s.handle(ctx, &c); err != nil {
				if cause := context.Cause(ctx); cause != nil {
					err = cause
				}
				return err
			}
			taken++
		}
	}
}

// reads notes that the stream is read, and tells it once.
func (r *streamReader) reads(s *session) {
	if r.ready() == nil {
		return
	}
	r.setStatus(nil)
	attrs := []any{slog.Uint64("position", s.began.Offset)}
	if lasted, was := r.fault.Ends(); was {
		attrs = append(attrs, slog.Duration("away_for", lasted))
	}
	r.log.Info("stream read", attrs...)
}

// explain makes what cannot be read by itself again a fault with its cure.
func explain(err error) error {
	if errors.Is(err, stream.StreamMissing) {
		return stream.Missing(err)
	}
	return err
}

// truncated tells of events that retention took before they were read.
func (r *streamReader) truncated(events, position uint64) {
	r.owner.Stats.Truncated.Add(int64(events))
	r.log.Error("events of a stream are gone before they were read: its retention took them",
		slog.Uint64("events", events), slog.Uint64("position", position),
		slog.String("hint", "raise the stream's max-age, or have workers read it sooner; the shop's outbox has the rows still: keyfold backfill publishes them again"))
}

// saveTimeout bounds the store's answer.
const saveTimeout = 5 * time.Second

// save stores the position where it has changed.
func (r *streamReader) save(ctx context.Context) {
	s := r.session()
	if s == nil {
		return
	}
	at := s.position()
	r.mu.Lock()
	stored := r.stored
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	var err error
	if at == stored {
		err = r.lookForRewind(ctx, at)
	} else {
		err = r.owner.ports.Positions.SavePosition(ctx, r.name, at)
	}
	if errors.Is(err, engine.ErrConflict) {
		r.rewound(s)
		return
	}
	if err != nil {
		r.log.Debug("position not stored: more is read again after a crash", slog.Any("error", err))
		return
	}
	r.mu.Lock()
	r.stored = at
	r.mu.Unlock()
}

// lookForRewind returns a conflict where the position was set back. One that was lost is stored again.
func (r *streamReader) lookForRewind(ctx context.Context, at profile.Position) error {
	stored, err := r.owner.ports.Positions.LoadPosition(ctx, r.name)
	if err == nil && stored == (profile.Position{}) && at != stored {
		return r.owner.ports.Positions.SavePosition(ctx, r.name, at)
	}
	if err == nil && stored.Rewinds != at.Rewinds {
		err = engine.ErrConflict
	}
	return err
}

// rewound has the stream read from the stored position.
func (r *streamReader) rewound(s *session) {
	r.mu.Lock()
	if r.live == s {
		r.live = nil
	}
	r.mu.Unlock()
	s.fail(errRewound)
}

// end ends the newest session.
func (r *streamReader) end(reason error) {
	if s := r.session(); s != nil {
		s.fail(reason)
	}
}

const settlePause = 5 * time.Millisecond

// close waits until what was handed over is settled, and stores the position.
func (r *streamReader) close(ctx context.Context) (err error) {
	s := r.session()
	if s == nil {
		return nil
	}
	for n, _ := s.set.Held(); n > 0 && !s.over(); n, _ = s.set.Held() {
		if !backoff.Sleep(ctx, settlePause) {
			err = fmt.Errorf("stream %s: %d events were not settled: they are read again: %w", r.name, n, ctx.Err())
			break
		}
	}
	r.save(context.WithoutCancel(ctx))
	r.end(errClosed)
	return err
}
