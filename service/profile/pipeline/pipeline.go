// Package pipeline joins the windows (shard) to what folds them (engine/profile/processor):
// deliveries go in, verdicts come out at each delivery's source.
package pipeline

import (
	"context"
	"slices"
	"sync"
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
	Router    *shard.Router[int32, profile.Held]

	shortHalfLife time.Duration
	submitted     sync.Pool // of *[]shard.Item: the items of a chunk
	flushed       sync.Pool // of *[]profile.Delivery: those of a flush
}

// New starts a pipeline. Its router must be drained in the end.
func New(windows shard.Config, laws processor.Config, ports processor.Ports) (*Pipeline, error) {
	ports.Profiles, ports.Phrases = failing(ports.Profiles), failingPhrases(ports.Phrases)
	apply, err := processor.New(laws, ports)
	if err != nil {
		return nil, err
	}
	p := &Pipeline{Processor: apply, shortHalfLife: laws.ShortHalfLife}
	p.submitted.New = func() any { return new([]shard.Item[int32, profile.Held]) }
	p.flushed.New = func() any { return new([]profile.Delivery) }
	if p.Router, err = shard.New(windows, shard.HashInt32, p.flush); err != nil {
		return nil, err
	}
	return p, nil
}

// flush folds closed windows. Their deliveries are made in one slice, which is used again.
func (p *Pipeline) flush(ctx context.Context, closed []shard.Batch[int32, profile.Held]) {
	deliveries := p.flushed.Get().(*[]profile.Delivery)
	batches, all := batchesOf(closed, (*deliveries)[:0])
	p.Processor.Apply(ctx, batches)
	clear(all)
	*deliveries = all
	p.flushed.Put(deliveries)
}

// batchesOf turns closed windows into the engine's words. The deliveries are in room, or in
// a slice in its place.
func batchesOf(closed []shard.Batch[int32, profile.Held], room []profile.Delivery) (batches []profile.Batch, all []profile.Delivery) {
	n := 0
	for i := range closed {
		n += len(closed[i].Items)
	}
	all = slices.Grow(room, n)
	batches = make([]profile.Batch, len(closed))
	for i := range closed {
		from := len(all)
		for _, held := range closed[i].Items {
			all = append(all, held.Delivery())
		}
		batches[i] = profile.Batch{UserID: closed[i].Key, Deliveries: all[from:len(all):len(all)]}
	}
	return batches, all
}

// eventBytes is what a delivery that is held whole keeps alive beside its strings and what its
// source reckons for it.
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
	room := p.submitted.Get().(*[]shard.Item[int32, profile.Held])
	items := (*room)[:0]
	for i := range deliveries {
		items = append(items, itemOf(&deliveries[i]))
	}
	err := p.Router.Submit(ctx, items)
	clear(items)
	*room = items
	p.submitted.Put(room)
	return err
}

// itemOf makes a delivery an item of its user's window.
func itemOf(d *profile.Delivery) shard.Item[int32, profile.Held] {
	held, whole := d.Hold()
	bytes := d.Bytes
	if whole {
		bytes += eventBytes + len(d.Event.MessageID) + len(d.Event.Phrase)
	}
	return shard.Item[int32, profile.Held]{
		Key:   d.Event.UserID,
		Value: held,
		Bytes: bytes,
		At:    d.Event.OccurredAt.Time(),
		// A retry has waited for its delay: a window on top would make it longer.
		Prompt: d.Attempt > 1,
	}
}

// hold leaves deliveries to their source.
func hold(deliveries []profile.Delivery, cause error) {
	for i := range deliveries {
		deliveries[i].Settler.Settle(engine.Verdict{Outcome: engine.Unsettled, Err: cause})
	}
}
