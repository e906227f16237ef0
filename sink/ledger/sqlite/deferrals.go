package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/sqlfile"
)

const (
	deferralColumns = `user_id, turn, due_at, spent, digest_key, slot, event`

	// Of a digest the other deferrals that are due come too; its time is the slot
	// until quiet hours move it. Those that another lease holds are not due.
	claimDeferrals = `WITH oldest AS (
			SELECT event_id, user_id, digest_key, due_at FROM notify_deferrals
			WHERE next_at <= ?1 ORDER BY due_at, event_id LIMIT ?3)
		UPDATE notify_deferrals SET next_at = ?2 WHERE event_id IN (
			SELECT event_id FROM oldest
			UNION SELECT d.event_id FROM oldest o JOIN notify_deferrals d
				ON d.user_id = o.user_id AND d.digest_key = o.digest_key AND d.due_at = o.due_at
				WHERE d.next_at <= ?1)
		RETURNING ` + deferralColumns

	releaseDeferrals = `UPDATE notify_deferrals SET next_at = due_at
		WHERE event_id IN (SELECT unhex(value) FROM json_each(?))`

	nextDue = `SELECT coalesce(min(next_at), 0) FROM notify_deferrals`
)

// deferral is a row of deferralColumns.
type deferral struct {
	notify.Due
	user         string
	spent, event []byte
}

func scanDeferral(rows *sql.Rows) (d deferral, err error) {
	var key sql.NullString
	var slot sql.NullInt64
	err = rows.Scan(&d.user, &d.Turn.Number, &d.DueAt, &d.spent, &key, &slot, &d.event)
	d.DigestKey, d.Slot = key.String, engine.Millis(slot.Int64)
	return d, err
}

// due returns the row's deferral with its event.
func (d *deferral) due() (_ notify.Due, err error) {
	if d.Event, err = decode.Event(d.user, d.event); err != nil {
		return d.Due, err
	}
	d.Turn.Spent, err = idsOf(d.spent)
	return d.Due, err
}

// Claim implements [notify.Deferrals]. They come by their due time.
func (l *Ledger) Claim(ctx context.Context, now, leaseEnd engine.Millis, n int) ([]notify.Due, error) {
	var claimed []deferral
	err := l.Write(ctx, func(tx *sqlfile.Tx) error {
		all, err := sqlfile.Select(tx, scanDeferral, claimDeferrals, int64(now), int64(leaseEnd), n)
		claimed = all
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []notify.Due
	for i := range claimed {
		due, damage := claimed[i].due()
		if damage != nil {
			err = damage
			continue
		}
		all = append(all, due)
	}
	slices.SortFunc(all, func(a, b notify.Due) int {
		return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), bytes.Compare(a.Event.ID[:], b.Event.ID[:]))
	})
	return all, err
}

// Release implements [notify.Deferrals].
func (l *Ledger) Release(ctx context.Context, events []uuid.UUID) error {
	return l.Write(ctx, func(tx *sqlfile.Tx) error {
		_, err := tx.Exec(releaseDeferrals, hexIDs(events))
		return err
	})
}

// NextDue implements [notify.Deferrals].
func (r *Reader) NextDue(ctx context.Context) (engine.Millis, error) {
	n, err := r.Count(ctx, nextDue)
	return engine.Millis(n), err
}
