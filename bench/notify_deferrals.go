package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyfold/bench/workload"
	"keyfold/internal/report"
	"keyfold/proof/stack"
)

// deferralsCmd has deferrals come due that were written into the table.
type deferralsCmd struct {
	notifyFlags `embed:"" set:"users=20000"`

	Waiting  int           `default:"1000000" help:"Deferrals that wait for another day all the while."`
	Rate     rate          `default:"100/s" help:"Deferrals that come due per unit of time."`
	Duration time.Duration `default:"60s" help:"How long they do."`
	AtOnce   int           `default:"100000" help:"Deferrals that come due at one instant, after that."`
	Limit    time.Duration `default:"10m" help:"Of the wait for them."`
}

// What is promised.
const (
	promisedLag  = 2 * time.Second
	promisedGone = time.Minute
)

// insertDeferrals writes n deferrals of MESSAGEs, each of a user of its own, with the
// keys of their first turns. $2 is when the first is due, $3 the pause to the next.
const insertDeferrals = `WITH made AS (
		SELECT i, gen_random_uuid() AS id, $4 || i AS who, $2::timestamptz + (i - 1) * $3::interval AS due
		FROM generate_series(1, $1::int) i
	), keys AS (
		INSERT INTO notify_event_keys (event_id, user_id, turn, decision_id, outcome, dispatched, decided_at)
		SELECT id, who, 0, gen_random_uuid(), 'LATER', false, date_trunc('milliseconds', now()) - interval '1 hour' FROM made
	)
	INSERT INTO notify_deferrals (event_id, user_id, turn, due_at, event, next_at)
	SELECT id, who, 1, due, json_build_object('event_id', id, 'user_id', who, 'event_type', 'MESSAGE', 'title', 'Message ' || i,
		'source', 'support', 'channel', json_build_array('push'),
		'timestamp', to_char(now() at time zone 'UTC' - interval '1 hour', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text, due FROM made`

const countDue = "SELECT count(*) FROM notify_deferrals WHERE due_at <= $1"

// insert writes deferrals.
func (b *notifyBench) insert(ctx context.Context, n int, first time.Time, pause time.Duration, users string) error {
	return workload.Query(ctx, b.Ledger, insertDeferrals, []any{n, first.Truncate(time.Millisecond), pause.String(), users})
}

// Run measures.
func (c *deferralsCmd) Run(ctx context.Context, r *report.Report) error {
	return c.run(ctx, r, func(ctx context.Context, b *notifyBench) error {
		if err := b.insert(ctx, c.Waiting, time.Now().Add(48*time.Hour), time.Millisecond, "waiting"); err != nil {
			return err
		}
		if err := workload.Query(ctx, b.Ledger, "VACUUM ANALYZE", nil); err != nil {
			return err
		}
		if err := b.start(ctx, 1); err != nil {
			return err
		}
		came := b.senders(nil)
		return errors.Join(c.atARate(ctx, b, came), c.atOneInstant(ctx, b))
	})
}

// atARate measures the lag of deferrals that come due one after the other.
func (c *deferralsCmd) atARate(ctx context.Context, b *notifyBench, came *times) error {
	n := int(c.Duration / c.Rate.pause)
	first := time.Now().Add(5 * time.Second)
	if err := b.insert(ctx, n, first, c.Rate.pause, "steady"); err != nil {
		return err
	}
	due, err := workload.DueAt(ctx, b.Ledger, first.Add(c.Duration+time.Hour))
	if err != nil {
		return err
	}
	if err := stack.Wait(ctx, time.Until(first.Add(c.Duration))); err != nil {
		return err
	}
	if _, err := b.await(ctx, n, c.Limit); err != nil {
		return err
	}
	time.Sleep(time.Second)
	committed, err := workload.Committed(ctx, b.Ledger, 1)
	if err != nil {
		return err
	}
	lag, sent := between(due, committed), between(due, came.all())
	b.report.Add("waiting", "deferrals", float64(c.Waiting))
	b.report.Latency("due to decision", lag)
	b.report.Latency("due to dispatch", sent)
	b.promised(max(lag.Seconds(99), sent.Seconds(99)) <= promisedLag.Seconds(), "the lag's p99 is above %v", promisedLag)
	return nil
}

// atOneInstant measures when the last of many deferrals is gone that come due at once.
func (c *deferralsCmd) atOneInstant(ctx context.Context, b *notifyBench) error {
	due := time.Now().Add(time.Duration(c.AtOnce) * 200 * time.Microsecond).Add(5 * time.Second)
	if err := b.insert(ctx, c.AtOnce, due, 0, "crowd"); err != nil {
		return err
	}
	if time.Now().After(due) {
		return fmt.Errorf("the deferrals were written after they were due: this machine is too slow for %d", c.AtOnce)
	}
	if err := stack.Wait(ctx, time.Until(due)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	left := 0
	err := stack.Poll(ctx, 500*time.Millisecond, func() (bool, error) {
		err := workload.Query(ctx, b.Ledger, countDue, []any{due}, &left)
		return left == 0, err
	})
	gone := time.Since(due)
	b.report.Add("due at one instant", "deferrals", float64(c.AtOnce))
	b.report.Add("gone within", "s", gone.Seconds())
	b.report.Add("decided and dispatched", "deferrals/s", float64(c.AtOnce-left)/gone.Seconds())
	b.report.Add("left", "deferrals", float64(left))
	if err == nil {
		b.promised(gone <= promisedGone, "gone after %v, promised are %v", gone.Round(time.Second), promisedGone)
	}
	return err
}
