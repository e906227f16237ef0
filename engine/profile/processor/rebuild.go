package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// HistoryEvent is one event of a user's history.
type HistoryEvent struct {
	Event profile.Event
	// InFlight: a copy may well be on its way to a worker, so that its id must be
	// in the profile. That of another event is there as long as there is room.
	InFlight bool
}

// Rebuilt is a profile made anew.
type Rebuilt struct {
	Profile *profile.Profile // nil: no event of the history could be folded
	Missing int              // events left out: their product is unknown
	Dead    int              // events left out: their vector can never be used
	// Unread counts events of the profile that old had not: their streams have them, and old
	// did not know them.
	Unread int64
}

// Why a profile cannot be made anew.
var (
	ErrErased = errors.New("the user was erased")
	// ErrInFlight: a profile could not hold the ids of all copies on their way.
	ErrInFlight = errors.New("too many of the user's events are on their way to a worker: try again when they have arrived")
)

// rebuildChunk is how many events are folded at a time.
const rebuildChunk = 1000

// Rebuild folds a user's history from nothing into the profile that follows
// old, which is what the store holds (nil: none). The history comes in folding
// order, (occurred_at, message_id); each event once.
//
// The ids old knows are kept, and those of events still in flight join them: a copy
// that is delivered later is known. So do the newest others, as a queue may have
// stood still for days; where some find no room, the floor rises above the time of the write
// ([Engine.Replace]), so that copies of them that say when they were first seen are told from new
// events. A profile made under other settings is
// replaced like any other: that is the cure for it. Errors: [ErrErased],
// [ErrInFlight], those of the history and of streams, and of vectors that cannot be had for now.
//
// What streams still bring, or bring again, is known without ids ([Ports.Streamed]). Whatever
// lies below their positions is done, as it is in old, was left out there for good, or waits as
// a copy; of the rest, what was folded here is done, and nothing else. An event of the
// history was in its stream before the streams were asked: it is below the positions, or among
// what they have. An event that a worker folds meanwhile changes the version.
func (e *Engine) Rebuild(ctx context.Context, user int32, old *profile.Profile, history iter.Seq2[HistoryEvent, error]) (Rebuilt, error) {
	if old.Erased() {
		return Rebuilt{}, fmt.Errorf("user %d: %w", user, ErrErased)
	}
	r := rebuilding{Engine: e, ctx: ctx, vectors: newVectors(), known: map[profile.AppliedID]bool{}}
	if old != nil {
		r.applied = old.Applied
	}
	for _, id := range r.applied.IDs {
		r.known[id] = true
	}
	chunk := make([]HistoryEvent, 0, rebuildChunk)
	for past, err := range history {
		if err != nil {
			return Rebuilt{}, err
		}
		if chunk = append(chunk, past); len(chunk) < rebuildChunk {
			continue
		}
		if err := r.fold(chunk); err != nil {
			return Rebuilt{}, err
		}
		chunk = chunk[:0]
	}
	if err := r.fold(chunk); err != nil {
		return Rebuilt{}, err
	}
	err := r.profile(user, old)
	return r.result, err
}

// rebuilding is a history being folded.
type rebuilding struct {
	*Engine
	ctx     context.Context //nolint:containedctx // lives as long as its call
	vectors *vectors
	applied profile.Applied // of the old profile

	result    Rebuilt
	state     profile.State
	short     profile.Short
	count     int64
	newest    profile.Event
	known     map[profile.AppliedID]bool // ids of the old profile
	inFlight  []profile.AppliedID        // unknown to it, like the others
	recentIDs []profile.AppliedID        // in folding order
	folded    []profile.AppliedID        // all, where there are streams
}

// fold folds the next events.
func (r *rebuilding) fold(chunk []HistoryEvent) error {
	if err := r.resolve(chunk); err != nil {
		return err
	}
	steps := make([]profile.Step, 0, len(chunk))
	for i := range chunk {
		e := &chunk[i].Event
		if r.newest.UserID != 0 && e.Before(&r.newest) {
			return fmt.Errorf("history is out of order: %s at %v comes after %v", e.MessageID, e.OccurredAt.Time(), r.newest.OccurredAt.Time())
		}
		step, err := r.vectors.step(e, &r.config.Weights)
		if errors.Is(err, engine.ErrMissing) {
			r.result.Missing++
			continue
		}
		if err != nil { // resolve has seen to it that it is permanent
			r.result.Dead++
			continue
		}
		switch {
		case r.known[e.Digest.ID()]:
		case chunk[i].InFlight:
			r.inFlight = append(r.inFlight, e.Digest.ID())
		default:
			r.recentIDs = append(r.recentIDs, e.Digest.ID())
		}
		if r.ports.Streamed != nil {
			r.folded = append(r.folded, e.Digest.ID())
		}
		steps = append(steps, step)
		r.newest = *e
		r.count++
	}
	r.short = r.config.FoldShort(r.short, r.state.Updated, steps)
	r.state = r.config.Fold(r.state, steps)
	// The next chunk asks for its own: a long history must not hold a vector of
	// every product it ever met.
	r.vectors = newVectors()
	return nil
}

// resolve gets the chunk's vectors; an answer that may change fails it.
func (r *rebuilding) resolve(chunk []HistoryEvent) error {
	var products []int32
	var phrases []string
	for i := range chunk {
		if e := &chunk[i].Event; e.Type.HasPhrase() {
			phrases = appendMissing(r.vectors.phrases, phrases, e.Phrase)
		} else {
			products = appendMissing(r.vectors.products, products, e.ProductID)
		}
	}
	return errors.Join(
		answered(r.ctx, r.ports.Products, products, r.vectors.products),
		answered(r.ctx, r.ports.Phrases, phrases, r.vectors.phrases))
}

func answered[K comparable](ctx context.Context, from engine.Vectors[K], keys []K, into map[K]engine.Resolved) error {
	if len(keys) == 0 {
		return nil
	}
	for i, r := range from.Resolve(ctx, keys) {
		if r.Err != nil && !errors.Is(r.Err, engine.ErrMissing) && engine.KindOf(r.Err) != engine.Permanent {
			return r.Err
		}
		into[keys[i]] = r
	}
	return nil
}

// profile makes the result of what was folded.
func (r *rebuilding) profile(user int32, old *profile.Profile) error {
	if r.count == 0 {
		return nil
	}
	marks, err := r.marks(user, old)
	if err != nil {
		return err
	}
	if len(r.inFlight)+len(r.applied.IDs) > r.config.IDs.Max {
		return fmt.Errorf("user %d: %w", user, ErrInFlight)
	}
	now, err := r.ports.Profiles.Now(r.ctx)
	if err != nil {
		return err
	}
	p := &profile.Profile{
		UserID: user, Version: 1, EventCount: r.count,
		Vector: r.state.Vector, Mass: r.state.Mass, Updated: r.state.Updated,
		LastType: r.newest.Type, LastID: r.newest.MessageID,
		History: r.config.History, Model: r.config.Model,
		CreatedAt: now, WrittenAt: now, Short: r.short, Marks: marks,
	}
	if old != nil {
		p.DropShort = p.Short.Vector == nil
		p.Version = old.Version + 1
		p.CreatedAt = cmp.Or(old.CreatedAt, now)
	}
	p.Applied = r.record(now)
	r.result.Profile = p
	return nil
}

// marks returns the marks of the new profile. All that the streams have at their positions and
// above is in hand here; the profile settles what was folded.
func (r *rebuilding) marks(user int32, before *profile.Profile) (profile.Marks, error) {
	var old profile.Marks
	if before != nil {
		old = before.Marks
	}
	if r.ports.Streamed == nil {
		return old, nil
	}
	streamed, err := r.ports.Streamed(r.ctx, user)
	if err != nil {
		return nil, err
	}
	if before != nil {
		for _, at := range streamed.Settled {
			if cause := before.Ahead(at); cause != nil {
				return nil, changed(cause)
			}
		}
	}
	ids := make(map[profile.AppliedID]bool, len(streamed.Events)) // true: it was folded
	for _, e := range streamed.Events {
		ids[e.ID] = false
	}
	for _, id := range r.folded {
		if _, there := ids[id]; there {
			ids[id] = true
		}
	}
	unread := map[profile.AppliedID]bool{}
	var p profile.Progress
	for _, e := range streamed.Events {
		p.InHand = append(p.InHand, e.Place)
		if !ids[e.ID] {
			continue
		}
		p.Read, p.Settled = append(p.Read, e.Place), append(p.Settled, e.Place)
		if !r.known[e.ID] && !old.Done(e.Place) {
			r.known[e.ID] = true // a repeat counts once
			unread[e.ID] = true
		}
	}
	r.result.Unread = int64(len(unread))
	r.keep(unread)
	return old.Below(streamed.Settled).After(p), nil
}

// keep has the ids of events kept whatever the room: a worker that has one in hand may replace
// it by a copy before it learns of the new profile, and only the id knows that.
func (r *rebuilding) keep(unread map[profile.AppliedID]bool) {
	recent := r.recentIDs[:0]
	for _, id := range r.recentIDs {
		if unread[id] {
			r.inFlight = append(r.inFlight, id)
		} else {
			recent = append(recent, id)
		}
	}
	r.recentIDs = recent
}

// record returns the ids of the new profile.
func (r *rebuilding) record(now engine.Millis) profile.Applied {
	room := max(0, r.config.IDs.Keep-len(r.applied.IDs)-len(r.inFlight))
	left := max(0, len(r.recentIDs)-room)
	record := r.applied.With(rand.Uint64(), slices.Concat(r.recentIDs[left:], r.inFlight), now, r.config.IDs)
	if left > 0 {
		record.Floor = profile.Undated
	}
	return record
}

// datingTime is how long a rebuild's second write may take.
const datingTime = 10 * time.Second

// Replace writes a profile that was made anew, which then is in the store. Where some of its ids
// found no room, a second write dates the floor. An error of that one, as of the first, is
// answered by another rebuild; a worker's next write of the user dates it too.
func (e *Engine) Replace(ctx context.Context, p *profile.Profile) error {
	err := e.ports.Profiles.Swap(ctx, []*profile.Profile{p})[0]
	if err != nil || p.Applied.Floor != profile.Undated {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), datingTime) // an interrupt comes after both
	defer cancel()
	now, err := e.ports.Profiles.Now(ctx)
	if err != nil {
		return err
	}
	return e.ports.Profiles.Swap(ctx, []*profile.Profile{e.marked(p, now)})[0]
}
