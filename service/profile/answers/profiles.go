package answers

import (
	"context"
	"fmt"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/service/profile/pipeline"
)

// profiles folds users' events into the store once they are old enough.
type profiles struct {
	fold *processor.Engine
	age  engine.Millis
	left map[int32][]profile.Event // by user, in order: what is not folded yet
	err  error                     // of what could not be folded
}

// newProfiles takes the events of those users who are asked.
func newProfiles(in *Input, age engine.Millis, asked []question) (*profiles, error) {
	p := &profiles{age: age, left: map[int32][]profile.Event{}}
	ports, err := pipeline.Ports(in.Laws, in.Store, stored(in.Products))
	if err != nil {
		return nil, err
	}
	ports.Phrases, ports.OnConfigError = in.Phrases, func(err error) { p.err = err }
	if p.fold, err = processor.New(in.Laws, ports); err != nil {
		return nil, err
	}
	for _, q := range asked {
		p.left[q.User] = nil
	}
	for _, e := range in.Events {
		if left, is := p.left[e.UserID]; is {
			p.left[e.UserID] = append(left, e)
		}
	}
	return p, nil
}

// advance folds what a profile of the user holds at an instant: events that are older than it,
// and at least by the age.
func (p *profiles) advance(ctx context.Context, user int32, at engine.Millis) error {
	left := p.left[user]
	batch := profile.Batch{UserID: user}
	for _, e := range left {
		if e.OccurredAt >= at || e.OccurredAt+p.age > at {
			break
		}
		batch.Deliveries = append(batch.Deliveries, profile.Delivery{Event: e, Settler: verdict(p.settle)})
	}
	if len(batch.Deliveries) == 0 {
		return nil
	}
	p.left[user] = left[len(batch.Deliveries):]
	p.fold.Apply(ctx, []profile.Batch{batch})
	return p.err
}

// settle hears what became of an event. One of a product that the catalogue does not know, or
// that can never be folded, is left out of profiles as it is by a worker.
func (p *profiles) settle(v engine.Verdict) {
	switch v.Outcome {
	case engine.Retry, engine.Park, engine.Unsettled:
		if p.err == nil {
			p.err = fmt.Errorf("an event could not be folded: %w", v.Err)
		}
	default:
	}
}

// verdict is a function as an [engine.Settler].
type verdict func(engine.Verdict)

// Settle implements [engine.Settler].
func (f verdict) Settle(v engine.Verdict) { f(v) }

// stored is the catalogue as the fold reads it.
type stored map[int32]profile.Product

// Products implements [catalog.Store].
func (s stored) Products(_ context.Context, ids []int32) (all []profile.Product, err error) {
	for _, id := range ids {
		if p, known := s[id]; known {
			all = append(all, p)
		}
	}
	return all, nil
}
