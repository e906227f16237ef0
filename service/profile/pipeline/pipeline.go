// Package pipeline joins the windows (shard) to what folds them (engine/profile/processor):
// deliveries go in, verdicts come out at each delivery's source.
package pipeline

import (
	"context"
	"time"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/shard"
)

// Pipeline is a router of users' windows into a taste engine.
type Pipeline struct {
	Processor *processor.Engine
	Router    *shard.Router[int32, profile.Delivery]

	shortHalfLife time.Duration
}

// New starts a pipeline. Its router must be drained in the end.
func New(windows shard.Config, laws processor.Config, ports processor.Ports) (*Pipeline, error) {
	ports.Profiles, ports.Phrases = failing(ports.Profiles), failingPhrases(ports.Phrases)
	apply, err := processor.New(laws, ports)
	if err != nil {
		return nil, err
	}
	router, err := shard.New(windows, shard.HashInt32, func(ctx context.Context, closed []shard.Batch[int32, profile.Delivery]) {
		apply.Apply(ctx, batches(closed))
	})
	if err != nil {
		return nil, err
	}
	return &Pipeline{Processor: apply, Router: router, shortHalfLife: laws.ShortHalfLife}, nil
}

// batches turns closed windows into the engine's words.
func batches(closed []shard.Batch[int32, profile.Delivery]) []profile.Batch {
	all := make([]profile.Batch, len(closed))
	for i := range closed {
		all[i] = profile.Batch{UserID: closed[i].Key, Deliveries: closed[i].Items}
	}
	return all
}

// eventBytes is what a delivery keeps alive beside its strings and what its source
// reckons for it.
const eventBytes = 256

// Deliver hands deliveries to their users' windows; it blocks while the held
// budget is full. On an error, which comes when ctx ends or the router stops,
// those that were not taken have the verdict Unsettled: a caller that waits for all of its
// deliveries' verdicts must not wait for these.
func (p *Pipeline) Deliver(ctx context.Context, deliveries []profile.Delivery) error {
	return InChunks(ctx, deliveries, p.Offer)
}

// InChunks hands deliveries to offer in chunks, and settles those that it does not
// take as Deliver does.
func InChunks(ctx context.Context, deliveries []profile.Delivery, offer func(context.Context, []profile.Delivery) error) error {
	for len(deliveries) > 0 {
		n := min(shard.Chunk, len(deliveries))
		if err := offer(ctx, deliveries[:n]); err != nil {
			hold(deliveries, err)
			return err
		}
		deliveries = deliveries[n:]
		if err := failpoint.Hit(failpoint.Windowed); err != nil {
			hold(deliveries, err)
			return err
		}
	}
	return nil
}

// Offer hands up to [shard.Chunk] deliveries to their users' windows, as Deliver does, but
// takes all or none: after an error they are the caller's, without a verdict.
func (p *Pipeline) Offer(ctx context.Context, deliveries []profile.Delivery) error {
	items := make([]shard.Item[int32, profile.Delivery], len(deliveries))
	for i := range deliveries {
		e := &deliveries[i].Event
		items[i] = shard.Item[int32, profile.Delivery]{
			Key:   e.UserID,
			Value: deliveries[i],
			Bytes: eventBytes + len(e.MessageID) + len(e.Phrase) + deliveries[i].Bytes,
			At:    e.OccurredAt.Time(),
			// A retry has waited for its delay: a window on top would make it longer.
			Prompt: deliveries[i].Attempt > 1,
		}
	}
	return p.Router.Submit(ctx, items)
}

// hold leaves deliveries to their source.
func hold(deliveries []profile.Delivery, cause error) {
	for i := range deliveries {
		deliveries[i].Settler.Settle(engine.Verdict{Outcome: engine.Unsettled, Err: cause})
	}
}
