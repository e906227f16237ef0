package postgres

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
)

const (
	deferralColumns = `w.user_id, w.turn, w.due_at, w.spent::text[], w.digest_key, w.slot, w.event`

	claimDeferrals = `SELECT ` + deferralColumns + ` FROM notify_claim($1, $2, $3) w`

	// One that a commit is writing gets its time from the commit.
	releaseDeferrals = `UPDATE notify_deferrals SET next_at = due_at WHERE event_id IN (
		SELECT event_id FROM notify_deferrals WHERE event_id = ANY ($1::uuid[]) ORDER BY event_id FOR UPDATE SKIP LOCKED)`

	nextDue = `SELECT notify_next_due()`
)

// deferral is a row of deferralColumns.
type deferral struct {
	notify.Due
	user string
}

func scanDeferral(row pgx.CollectableRow) (d deferral, err error) {
	var (
		due   time.Time
		slot  *time.Time
		key   *string
		spent []string
		event []byte
	)
	if err = row.Scan(&d.user, &d.Turn.Number, &due, &spent, &key, &slot, &event); err != nil {
		return d, err
	}
	d.DueAt, d.Slot, d.DigestKey = millisOf(&due), millisOf(slot), textOf(key)
	if d.Turn.Spent, err = decodeIDs(spent); err != nil {
		return d, err
	}
	d.Event, err = decode.Event(d.user, event)
	return d, err
}

// Claim implements [notify.Deferrals]. They come by their due time.
func (l *Ledger) Claim(ctx context.Context, now, leaseEnd engine.Millis, n int) ([]notify.Due, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	var damage error
	claimed, err := collect(ctx, l, "claim", func(row pgx.CollectableRow) (deferral, error) {
		d, err := scanDeferral(row)
		if engine.ReasonOf(err) == ReasonCorrupt {
			d.Event, damage, err = nil, err, nil
		}
		return d, err
	}, claimDeferrals, now.Time(), leaseEnd.Time(), n)
	if err != nil {
		return nil, err
	}
	var all []notify.Due
	for i := range claimed {
		if claimed[i].Event != nil {
			all = append(all, claimed[i].Due)
		}
	}
	slices.SortFunc(all, func(a, b notify.Due) int {
		return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), bytes.Compare(a.Event.ID[:], b.Event.ID[:]))
	})
	return all, damage
}

// Release implements [notify.Deferrals].
func (l *Ledger) Release(ctx context.Context, events []uuid.UUID) error {
	if len(events) == 0 {
		return ctx.Err()
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	_, err := l.pool.Exec(ctx, releaseDeferrals, texts(events))
	return mark(ctx, "release", err)
}

// NextDue implements [notify.Deferrals].
func (l *Ledger) NextDue(ctx context.Context) (engine.Millis, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	var next *time.Time
	err := l.pool.QueryRow(ctx, nextDue).Scan(&next)
	return millisOf(next), mark(ctx, "next due", err)
}
