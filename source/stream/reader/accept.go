package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/stream"
)

// Change is a stream that is another one than its position is of, and what accepting it does.
type Change struct {
	Cause error
	// Seen is the position as it was found.
	Seen profile.Position
	// To is where the stream is read from, in its next epoch.
	To profile.Position
	// First is the stream's first offset. What lies between it and To was read before.
	First uint64
}

// Load reads profiles: [profile.Profiles].Load.
type Load = func(ctx context.Context, users []int32) ([]*profile.Profile, error)

// errSilent: what a position would be made of is not known.
var errSilent = errors.New("the broker sends nothing of the stream, though it has some: try it again")

// Changed returns how a stream is another one than a position is of; nil: it is the same.
func Changed(ctx context.Context, client stream.Config, names rabbit.Names, s State, at profile.Position, load Load) (*Change, error) {
	change := &Change{Seen: at, First: s.First}
	first, err := chunkAt(ctx, client, s.Stream, from(at))
	if err != nil {
		return nil, err
	}
	if first == nil {
		// An answer that is late looks like a stream that is shorter. Only the latter is a change.
		if err := endsBefore(ctx, client, s, at.Chunk.First); err != nil {
			return nil, err
		}
	}
	number := at.Epoch.Number
	if change.Cause = differs(at, first); change.Cause != nil {
		change.To, err = newSince(ctx, client, s, at.Chunk.Timestamp)
	} else if s.End > 0 {
		// The end may be lost above the position only: then profiles have marks of it.
		change.To = at
		change.To.Offset = max(at.Offset, at.Epoch.From)
		one, _ := names.StreamOf(s.Stream)
		var found contradiction
		found, err = contradicted(ctx, client, s, one.ID(number), at, load)
		if change.Cause = cmp.Or(found.anew, found.ahead); found.ahead != nil {
			number = found.epoch.Epoch()
			change.To = profile.Position{Offset: s.First, Epoch: profile.Epoch{Number: number, From: s.First}}
			if found.anew == nil && err == nil { // marks of that epoch know what was read
				return change, nil
			}
		}
	}
	if err != nil || change.Cause == nil {
		return nil, err
	}
	if number == math.MaxUint16 {
		return nil, fmt.Errorf("stream %s was accepted %d times, which is as often as can be: make streams of a new generation by %s",
			s.Stream, math.MaxUint16, rabbit.SetupStreamsCommand)
	}
	change.To.Epoch = profile.Epoch{Number: number + 1, From: max(change.To.Offset, s.First)}
	return change, nil
}

// endsBefore returns an error where the stream has something at an offset, or that is not known.
func endsBefore(ctx context.Context, client stream.Config, s State, offset uint64) error {
	if s.End > offset {
		return fmt.Errorf("stream %s, offset %d: %w", s.Stream, offset, errSilent)
	}
	if s.End > 0 {
		return nil
	}
	conn, err := stream.DialLeader(ctx, client, s.Stream)
	if err != nil {
		return explain(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	stats, err := conn.Stats(ctx, s.Stream)
	if errors.Is(err, stream.ErrNoStats) {
		return nil // silence is all that such a broker tells of an empty stream
	}
	if err == nil && stats["first_chunk_id"] >= 0 {
		err = fmt.Errorf("stream %s: %w", s.Stream, errSilent)
	}
	return err
}

// newSince returns the position of what was stored after a time, which is that of a chunk that
// the stream has no more: what is older was stored before the stream changed, and was read.
func newSince(ctx context.Context, client stream.Config, s State, since engine.Millis) (profile.Position, error) {
	at := profile.Position{Offset: s.End}
	err := chunksFrom(ctx, client, s.Stream, stream.Since(since), func(c *stream.Chunk) (more bool, err error) {
		if c.Timestamp > since {
			at = profile.Position{Offset: c.First, Chunk: fingerprintOf(c)}
			return false, nil
		}
		at = profile.Position{Offset: c.Next(), Chunk: fingerprintOf(c)}
		return true, nil
	})
	if err == nil && s.End > 0 && at.Chunk == (profile.Fingerprint{}) {
		last, failed := chunkAt(ctx, client, s.Stream, stream.Last)
		if last == nil {
			return at, errors.Join(errSilent, failed)
		}
		at = profile.Position{Offset: last.Next(), Chunk: fingerprintOf(last)}
	}
	return at, err
}

// usersAtOnce is how many events are compared with their users' profiles at a time.
const usersAtOnce = 500

// contradiction is what profiles show of a stream and its position.
type contradiction struct {
	epoch profile.StreamID // the latest that there are marks of
	ahead error            // it is later than the position's
	anew  error            // its marks are of another stream
}

// contradicted looks from the position on for an event that its user's marks cannot be about.
func contradicted(ctx context.Context, client stream.Config, s State, id profile.StreamID, at profile.Position, load Load) (found contradiction, err error) {
	found.epoch = id
	type waiting struct {
		place  profile.Place
		stored engine.Millis
	}
	var events []waiting
	var users []int32
	compare := func() error {
		profiles, err := load(ctx, users)
		if _, ok := errors.AsType[*engine.UnreadableError](err); err != nil && !ok {
			return err
		}
		for _, p := range profiles {
			if p != nil {
				found.epoch = max(found.epoch, p.Marks.Latest(id))
			}
		}
		for i, p := range profiles {
			if p == nil || p.Marks.Latest(id) != found.epoch {
				continue
			}
			place := events[i].place
			found.ahead = cmp.Or(found.ahead, p.Ahead(place))
			place.Stream = found.epoch
			found.anew = cmp.Or(found.anew, p.Contradicts(place, events[i].stored))
		}
		events, users = events[:0], users[:0]
		return nil
	}
	begin := max(at.Offset, at.Epoch.From)
	err = chunksFrom(ctx, client, s.Stream, from(at), func(c *stream.Chunk) (more bool, err error) {
		err = c.Each(func(offset uint64, m stream.Message) error {
			body, err := m.Body()
			if err != nil || offset < begin {
				return nil //nolint:nilerr // a worker makes a dead letter of it
			}
			e, err := consume.EventOf(&rabbit.Original{Message: rabbit.Message{ID: m.ID(), Body: body}}, time.Now())
			if err != nil {
				return nil //nolint:nilerr // and of this one
			}
			events = append(events, waiting{profile.Place{Stream: id, Offset: offset}, c.Timestamp})
			users = append(users, e.UserID)
			return nil
		})
		if err == nil && (len(users) >= usersAtOnce || c.Next() >= s.End) {
			err = compare()
		}
		return cmp.Or(found.anew, found.ahead) == nil && c.Next() < s.End, err
	})
	if err == nil && len(users) > 0 { // the broker had no more
		err = compare()
	}
	return found, err
}
