package reader

import (
	"context"
	"time"

	"github.com/sourcegraph/conc/pool"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/rabbit"
	"keyfold/source/stream"
)

// State is what a stream has, as of now.
type State struct {
	Stream string
	// First and End are the first offset and the one behind the last; both 0: it is empty.
	First, End uint64
	// Oldest and Newest are when the broker stored the first and the last chunk; 0: it is
	// empty.
	Oldest, Newest engine.Millis
}

// emptyAfter is after what time without a chunk a stream is taken to be empty.
const emptyAfter = time.Second

// Look returns the states of the streams that the broker has.
func Look(ctx context.Context, client stream.Config, names rabbit.Names) ([]State, error) {
	found, err := stream.Find(ctx, client, names)
	if err != nil {
		return nil, err
	}
	states := make([]State, len(found))
	looking := pool.New().WithErrors().WithContext(ctx).WithMaxGoroutines(looksAtOnce)
	for i, s := range found {
		looking.Go(func(ctx context.Context) (err error) {
			states[i], err = look(ctx, client, names.StreamQueue(s))
			return err
		})
	}
	return states, looking.Wait()
}

// looksAtOnce bounds the connections of Look, which waits a second for each stream that is
// empty.
const looksAtOnce = 16

func look(ctx context.Context, client stream.Config, name string) (State, error) {
	state := State{Stream: name}
	first, err := chunkAt(ctx, client, name, stream.First)
	if err != nil || first == nil {
		return state, err
	}
	last, err := chunkAt(ctx, client, name, stream.Last)
	if err != nil || last == nil {
		return state, err
	}
	state.First, state.Oldest = first.First, first.Timestamp
	state.End, state.Newest = last.Next(), last.Timestamp
	return state, nil
}

// PositionAt returns where a stream is to be read from for all that was stored since a time. Of
// an empty stream, or where nothing is that young, it is the end.
func PositionAt(ctx context.Context, client stream.Config, name string, since engine.Millis) (profile.Position, error) {
	c, err := chunkAt(ctx, client, name, stream.Since(since))
	if err != nil || c == nil {
		return profile.Position{}, err
	}
	return profile.Position{Offset: c.First, Chunk: fingerprintOf(c)}, nil
}

// chunkAt returns one chunk, nil where none comes.
func chunkAt(ctx context.Context, client stream.Config, name string, from stream.Offset) (found *stream.Chunk, err error) {
	err = chunksFrom(ctx, client, name, from, func(c *stream.Chunk) (bool, error) {
		found = c
		return false, nil
	})
	return found, err
}

// chunksFrom hands over chunks until take wants no more, or none comes.
func chunksFrom(ctx context.Context, client stream.Config, name string, from stream.Offset, take func(*stream.Chunk) (more bool, err error)) error {
	conn, err := stream.DialLeader(ctx, client, name)
	if err != nil {
		return explain(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return subscribed(ctx, conn, name, from, emptyAfter, take)
}

// chunkOf returns one chunk, nil where none comes within a time.
func chunkOf(ctx context.Context, conn *stream.Conn, name string, from stream.Offset, within time.Duration) (found *stream.Chunk, err error) {
	err = subscribed(ctx, conn, name, from, within, func(c *stream.Chunk) (bool, error) {
		found = c
		return false, nil
	})
	return found, err
}

// subscribed hands over chunks until take wants no more, or none comes within a time.
func subscribed(
	ctx context.Context, conn *stream.Conn, name string, from stream.Offset, within time.Duration, take func(*stream.Chunk) (more bool, err error),
) error {
	chunks := make(chan stream.Chunk, 1)
	sub, err := conn.Subscribe(ctx, stream.Consume{Stream: name, From: from, Credit: 1, Handle: func(_ context.Context, _ *stream.Subscription, c stream.Chunk) {
		select {
		case chunks <- c:
		default:
		}
	}})
	if err != nil {
		return explain(err)
	}
	defer func() { _ = sub.Unsubscribe(context.WithoutCancel(ctx)) }() // the connection may be lost
	for {
		select {
		case c := <-chunks:
			if more, err := take(&c); !more || err != nil {
				return err
			}
			if err := sub.Credit(1); err != nil {
				return err
			}
		case <-conn.Done():
			return conn.Err()
		case <-time.After(within):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
