package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"keyfold/engine/backoff"
)

// Drain publishes the unsent rows that a filter picks, once each, and returns
// how many were sent: a backfill. Rows that relays leave to it are among them. It may run beside relays and be run again
// after it was stopped: what was sent is marked. progress is called after every
// batch with the rows sent so far; it may be nil.
//
// Rows that were set aside, or are held back when their turn comes, are left to
// a relay. Rows a filter leaves out may be older than those it picks: with one
// that cuts through a user's history, the order of that user's events is the
// filter's. Drain waits while the broker or the database is away; it returns an
// error when ctx ends, or where another process publishes from an SQLite file.
func (r *Relay) Drain(ctx context.Context, filter Filter, progress func(sent int64)) (int64, error) {
	work, cancel := afterGrace(ctx, r.config.Grace)
	defer cancel()
	filter.backfill = true
	var sent int64
	for first := 0; first < Shards; first += r.config.BatchShards {
		shards := make([]int, 0, r.config.BatchShards)
		for shard := first; shard < min(first+r.config.BatchShards, Shards); shard++ {
			shards = append(shards, shard)
		}
		err := r.drainShards(ctx, work, shards, filter, func(n int) {
			sent += int64(n)
			if progress != nil {
				progress(sent)
			}
		})
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// drainShards publishes until each of the shards was seen without a row to send.
// A shard that another relay holds is waited for.
func (r *Relay) drainShards(ctx, work context.Context, shards []int, filter Filter, count func(int)) error {
	for r.rest(ctx) {
		got, all, err := r.drainBatch(ctx, work, shards, filter)
		count(got.sent)
		switch {
		case errors.Is(err, errRelayed):
			return err
		case err != nil:
			r.recordOutage(ctx, err)
		case all && got.rows == 0:
			return nil
		case got.done == 0:
			r.idle(ctx, backoff.Jitter(r.config.PollMin))
		}
	}
	return ctx.Err()
}

// drainBatch publishes one batch of those of the shards that have something to
// send: the fewer they are, the more of each. all is true when none of them was
// another relay's.
func (r *Relay) drainBatch(ctx, work context.Context, shards []int, filter Filter) (got result, all bool, err error) {
	wanted, err := r.waiting(work, shards)
	if err != nil || len(wanted) == 0 {
		return result{}, err == nil, err
	}
	got, err = r.publishShards(ctx, work, wanted, query{held: r.paused.waiting(time.Now()), filter: filter})
	return got, got.shards == len(wanted), err
}

// waiting returns those of the shards that have something to send, be it for a
// relay or left to a backfill.
func (r *Relay) waiting(ctx context.Context, shards []int) ([]int, error) {
	waiting := map[int]bool{}
	for _, above := range []int{0, backfillShards} {
		heads, err := r.db.heads(ctx, above)
		if err != nil {
			return nil, r.db.fault("look for events", err)
		}
		for shard := range heads {
			waiting[shard%Shards] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(shards), func(shard int) bool { return !waiting[shard] }), nil
}
