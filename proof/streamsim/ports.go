package streamsim

import (
	"context"
	"errors"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// store is the store in memory, at which flights stop. Some answers are lost.
type store struct{ world *world }

// Load implements [profile.Profiles].
func (s store) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	pause(ctx)
	return s.world.store.Load(ctx, users)
}

// Now implements [profile.Profiles].
func (s store) Now(context.Context) (engine.Millis, error) { return s.world.now(), nil }

// Swap implements [profile.Profiles].
func (s store) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	pause(ctx)
	w := s.world
	answers := make([]error, len(profiles))
	for i, p := range profiles {
		before, _ := w.store.Load(ctx, []int32{p.UserID})
		chance := w.r.IntN(20)
		if chance == 0 && w.step < wild {
			answers[i] = engine.ErrUnknown
			continue
		}
		answers[i] = w.store.Swap(ctx, []*profile.Profile{p})[0]
		w.note("user %d version %d: %v, marks %+v, floor %d: %v", p.UserID, p.Version, w.counts(p), p.Marks, p.Applied.Floor, answers[i])
		if answers[i] == nil {
			if ctx.Value(rebuilding{}) != nil {
				w.checkRebuilt(before[0], p)
			} else {
				w.check(before[0], p)
			}
			if chance == 1 && w.step < wild {
				answers[i] = engine.ErrUnknown
			}
		}
	}
	return answers
}

// products have a vector each, with one component. Some are not known yet.
type products struct{ world *world }

// Resolve implements [engine.Vectors].
func (p products) Resolve(ctx context.Context, ids []int32) []engine.Resolved {
	all := make([]engine.Resolved, len(ids))
	for i, id := range ids {
		if p.world.events[id-1].late && p.world.step < wild && ctx.Value(rebuilding{}) == nil {
			all[i].Err = engine.ErrMissing
			continue
		}
		all[i].Vector = p.world.unit(int(id) - 1)
	}
	return all
}

func (w *world) unit(i int) []float64 {
	v := make([]float64, len(w.events))
	v[i] = 1
	return v
}

// phrases fail now and then.
type phrases struct{ world *world }

var (
	errAPI     = errors.New("the embedding API failed")
	errRefused = errors.New("the embedding API refused the phrase")
)

// Resolve implements [engine.Vectors].
func (p phrases) Resolve(ctx context.Context, texts []string) []engine.Resolved {
	pause(ctx)
	w := p.world
	all := make([]engine.Resolved, len(texts))
	for i, text := range texts {
		index := 0
		for _, digit := range text {
			index = 10*index + int(digit-'0')
		}
		switch chance := w.r.IntN(10); {
		case ctx.Value(rebuilding{}) != nil:
			all[i].Vector = w.unit(index)
		case w.step < wild && chance < 5:
			all[i].Err = errAPI
		case w.step < wild && chance == 5:
			all[i].Err = engine.PermanentError("refused", errRefused)
		default:
			all[i].Vector = w.unit(index)
		}
	}
	return all
}
