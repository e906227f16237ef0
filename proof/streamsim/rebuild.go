package streamsim

import (
	"context"
	"slices"

	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
)

// rebuilding is the key of a rebuild in its context. Whatever it needs is there.
type rebuilding struct{}

// rebuild makes a profile anew of the history, as `keyfold user rebuild` does, beside the
// workers.
func (w *world) rebuild(user int32) *flight {
	return fly(user, func(ctx context.Context) {
		ctx = context.WithValue(ctx, rebuilding{}, true)
		stored := make([]uint64, len(w.streams))
		for i, s := range w.streams {
			stored[i] = s.stored
		}
		e, err := processor.New(w.config, processor.Ports{
			Profiles: store{w}, Products: products{w}, Phrases: phrases{w},
			Streamed: func(ctx context.Context, user int32) (profile.Streamed, error) {
				pause(ctx)
				return w.streamed(user, stored), nil
			},
		})
		if err != nil {
			panic(err)
		}
		loaded, _ := store{w}.Load(ctx, []int32{user})
		old := loaded[0]
		pause(ctx)
		rows := w.history(user, old)
		next, err := e.Rebuild(ctx, user, old, func(yield func(processor.HistoryEvent, error) bool) {
			for _, row := range rows {
				if !yield(processor.HistoryEvent{Event: row.Event}, nil) { // sent long ago
					return
				}
			}
		})
		if err != nil || next.Profile == nil || w.lacks(next.Profile, old) {
			return
		}
		w.note("user %d is rebuilt", user)
		_ = e.Replace(ctx, next.Profile)
	})
}

// streamed returns what the streams have of a user from positions on.
func (w *world) streamed(user int32, positions []uint64) (all profile.Streamed) {
	for i, s := range w.streams {
		all.Settled = append(all.Settled, profile.Place{Stream: s.id, Offset: positions[i]})
		for _, e := range s.events[:s.published] {
			if e.UserID == user && e.place.Offset >= positions[i] {
				all.Events = append(all.Events, profile.StreamedEvent{Place: e.place, ID: e.Digest.ID()})
			}
		}
	}
	return all
}

// history returns the rows of a user that are marked as sent, some late, in their order. Of an
// event that was sent twice it has the one that the profile has, if any.
func (w *world) history(user int32, old *profile.Profile) (rows []*event) {
	counts := w.counts(old)
	byID := map[string]*event{}
	for _, s := range w.streams {
		for _, e := range s.events[:s.published] {
			row := byID[e.MessageID]
			if e.UserID == user && !e.other && (row == nil || counts[row.index] == 0 && counts[e.index] > 0) && w.r.IntN(10) > 0 {
				byID[e.MessageID] = e
			}
		}
	}
	for _, e := range byID {
		rows = append(rows, e)
	}
	slices.SortFunc(rows, func(a, b *event) int {
		if a.Before(&b.Event) {
			return -1
		}
		return 1
	})
	return rows
}

// lacks reports whether a profile has less than the one before it: then it is refused.
func (w *world) lacks(next, old *profile.Profile) bool {
	has := map[string]bool{}
	for i, n := range w.counts(next) {
		has[w.events[i].MessageID] = has[w.events[i].MessageID] || n > 0
	}
	for i, n := range w.counts(old) {
		if n > 0 && !has[w.events[i].MessageID] {
			return true
		}
	}
	return false
}

// checkRebuilt checks a profile that was made anew over the one that it replaced.
func (w *world) checkRebuilt(before, after *profile.Profile) {
	if w.lacks(after, before) {
		w.broken("a rebuild replaced version %d that had more", before.Version)
	}
	for i, n := range w.counts(after) {
		if n > 1 {
			w.broken("a rebuild folded %s %d times", w.events[i].MessageID, n)
		}
	}
}
