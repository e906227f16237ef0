package reader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sourcegraph/conc/pool"

	"keyfold/engine/backoff"
	"keyfold/engine/profile"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/stream"
)

// Tail reads what streams have from their positions on, of some users, beside the workers, and
// settles nothing: a command knows by it what may still come of events that it counts.
type Tail struct {
	streams []*tailed
	conns   map[string]*stream.Conn
}

// tailed is one stream.
type tailed struct {
	id          profile.StreamID
	name        string
	began       profile.Position
	next        uint64 // the first offset that workers have not settled
	first, last int32  // the users
	conn        *stream.Conn
	log         *slog.Logger

	mu      sync.Mutex
	read    bool                              // under mu: a chunk
	newest  uint64                            // under mu: the first offset of the last chunk that was read
	changed bool                              // under mu: it is another stream than the position's
	err     error                             // under mu: why nothing more is read
	events  map[int32][]profile.StreamedEvent // under mu: by user
}

// OpenTail begins to read all streams of an application from the stored positions on, for the
// users from first to last.
func OpenTail(ctx context.Context, config Config, positions profile.Positions, log *slog.Logger, first, last int32) (*Tail, error) {
	found, err := stream.Find(ctx, config.Client, config.Names)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, s := range found {
		names[i] = config.Names.StreamQueue(s)
	}
	t := &Tail{}
	if t.conns, err = stream.DialLeaders(ctx, config.Client, names...); err != nil {
		return nil, explain(err)
	}
	for i, name := range names {
		one := &tailed{
			name: name, first: first, last: last, conn: t.conns[name],
			log: log.With(slog.String("stream", name)), events: map[int32][]profile.StreamedEvent{},
		}
		t.streams = append(t.streams, one)
		if one.began, err = positions.LoadPosition(ctx, name); err == nil {
			one.id, one.next = found[i].ID(one.began.Epoch.Number), max(one.began.Offset, one.began.Epoch.From)
			err = one.open(ctx)
		}
		if err != nil {
			t.Close(ctx)
			return nil, err
		}
	}
	return t, nil
}

// Close ends the reading.
func (t *Tail) Close(ctx context.Context) {
	for _, c := range t.conns {
		c.Close(context.WithoutCancel(ctx))
	}
}

// Of returns what the streams have of a user, up to the ends that they have at the call.
func (t *Tail) Of(ctx context.Context, user int32) (all profile.Streamed, err error) {
	reading := pool.New().WithErrors().WithContext(ctx)
	for _, one := range t.streams {
		reading.Go(one.catchUp)
	}
	if err := reading.Wait(); err != nil {
		return all, err
	}
	for _, one := range t.streams {
		one.mu.Lock()
		if !one.changed { // else no worker reads it, and its position is of another
			all.Settled = append(all.Settled, profile.Place{Stream: one.id, Offset: one.next})
			all.Events = append(all.Events, one.events[user]...)
		}
		one.mu.Unlock()
	}
	return all, nil
}

func (t *tailed) open(ctx context.Context) error {
	_, err := t.conn.Subscribe(ctx, stream.Consume{Stream: t.name, From: from(t.began), Credit: credit, Handle: func(_ context.Context, s *stream.Subscription, c stream.Chunk) {
		err := t.take(&c)
		if err == nil {
			err = s.Credit(1)
		}
		if err != nil {
			t.mu.Lock()
			t.err = err
			t.mu.Unlock()
		}
	}})
	return explain(err)
}

// take notes the events of a chunk.
func (t *tailed) take(c *stream.Chunk) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed || !t.read && differs(t.began, c) != nil {
		t.leave()
		return nil
	}
	now := time.Now()
	err := c.Each(func(offset uint64, m stream.Message) error {
		if offset < t.next {
			return nil
		}
		body, err := m.Body()
		if err != nil {
			return nil //nolint:nilerr // it is no event for a worker either
		}
		e, err := consume.EventOf(&rabbit.Original{Message: rabbit.Message{ID: m.ID(), Body: body}}, now)
		if err == nil && e.UserID >= t.first && e.UserID <= t.last {
			t.events[e.UserID] = append(t.events[e.UserID], profile.StreamedEvent{Place: profile.Place{Stream: t.id, Offset: offset}, ID: e.Digest.ID()})
		}
		return nil
	})
	t.read, t.newest = true, c.First
	c.Free()
	return err
}

// leave notes, under mu, that the stream is another one than the position is of.
func (t *tailed) leave() {
	if !t.changed {
		t.log.Warn("stream left out: it was made anew, or lost its end, and workers read nothing of it",
			slog.Uint64("position", t.began.Offset), slog.String("hint", "once it is known why: "+profile.AcceptCommand.String()))
	}
	t.changed = true
}

// catchUp waits until all is read that the stream has at the call.
func (t *tailed) catchUp(ctx context.Context) error {
	end, err := t.end(ctx)
	if err != nil || end == nil {
		return err
	}
	for !t.reached(end) {
		if err := t.fault(); err != nil {
			return err
		}
		if !backoff.Sleep(ctx, catchUpPause) {
			return ctx.Err()
		}
	}
	return nil
}

const catchUpPause = time.Millisecond

// reached reports whether a chunk was read, or none is to be.
func (t *tailed) reached(end *stream.Chunk) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end.First < t.began.Chunk.First {
		t.leave()
	}
	return t.changed || t.read && t.newest >= end.First
}

func (t *tailed) fault() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && rabbit.IsClosed(t.conn.Done()) {
		return t.conn.Err()
	}
	return t.err
}

// end returns the last chunk, nil where there is none.
func (t *tailed) end(ctx context.Context) (*stream.Chunk, error) {
	t.mu.Lock()
	empty := !t.read && t.began.Chunk == (profile.Fingerprint{}) // as far as is known
	t.mu.Unlock()
	within := identityTimeout
	if empty {
		switch figures, err := t.conn.Stats(ctx, t.name); {
		case errors.Is(err, stream.ErrNoStats):
			within = emptyAfter
		case err != nil:
			return nil, explain(err)
		case figures["committed_chunk_id"] < 0:
			return nil, nil
		default:
			empty = false
		}
	}
	c, err := chunkOf(ctx, t.conn, t.name, stream.Last, within)
	if err == nil && c == nil && !empty {
		err = fmt.Errorf("stream %s: %w within %v", t.name, errSilent, within)
	}
	return c, err
}
