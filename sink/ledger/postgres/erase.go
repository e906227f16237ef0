package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// blankedPerCall is how many records of an erased user one transaction blanks: none
// holds its locks for long.
const blankedPerCall = 1000

const (
	// Each row is looked up: no table is read whole.
	byIndex = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true)`

	recordsOfUser = `SELECT decision_id, event_id FROM notify_decisions WHERE user_id = $1 LIMIT $2`

	// Keys and records are locked in the order of the other calls.
	buryKeys = `UPDATE notify_event_keys SET user_id = $2, dispatched = dispatched OR outcome = 'NOW' WHERE event_id IN (
		SELECT event_id FROM notify_event_keys WHERE event_id = ANY ($1::uuid[]) ORDER BY event_id FOR UPDATE)`

	lockRecords = `SELECT FROM notify_decisions d, unnest($1::uuid[]) AS w (id)
		WHERE d.decided_at = notify_instant(w.id) AND d.decision_id = w.id ORDER BY d.decision_id FOR UPDATE OF d`

	blankRecords = `UPDATE notify_decisions d SET user_id = NULL, print = NULL, digest_key = NULL, event = NULL, facts = NULL,
		delivery_error = NULL
		FROM unnest($1::uuid[]) AS w (id) WHERE d.decided_at = notify_instant(w.id) AND d.decision_id = w.id`

	// Keys of records that retention has dropped.
	buryOldKeys = `UPDATE notify_event_keys SET user_id = $2, dispatched = dispatched OR outcome = 'NOW'
		WHERE user_id = $1 AND decided_at < $3`
)

// Forget implements [notify.Ledger]. One transaction makes the tombstone and deletes
// preferences and deferrals: from then on no decision of the user is written but as of
// an erased one, and none is dispatched. Further ones blank the records.
func (l *Ledger) Forget(ctx context.Context, user string, at engine.Millis) error {
	if err := l.bury(ctx, user, at); err != nil {
		return err
	}
	for {
		n, err := l.blank(ctx, user)
		if err != nil {
			return err
		}
		if n < blankedPerCall {
			return l.buryOldKeys(ctx, user)
		}
	}
}

// bury makes the tombstone, unless there is one.
func (l *Ledger) bury(ctx context.Context, user string, at engine.Millis) error {
	err := l.erasing(ctx, "forget", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, makeUser, user); err != nil {
			return err
		}
		var before time.Time
		if err := tx.QueryRow(ctx, lockUser, user).Scan(&before); err != nil {
			return err
		}
		tombstone := ledger.Erased(millisOf(&before), at)
		_, err := tx.Exec(ctx, buryUser, user, notify.Tombstone(user), tombstone.Append(nil), tombstone.DecidedAt.Time(), at.Time())
		for _, statement := range []string{endDispatches, deleteDeferrals, deletePreferences, deleteResponses} {
			if err == nil {
				_, err = tx.Exec(ctx, statement, user)
			}
		}
		return err
	})
	if codeOf(err) == codeErased {
		return nil
	}
	return err
}

// blank blanks some records of an erased user, and the user's name in the keys of their
// events. It returns how many records it was.
func (l *Ledger) blank(ctx context.Context, user string) (n int, err error) {
	err = l.erasing(ctx, "blank records", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, recordsOfUser, user, blankedPerCall)
		if err != nil {
			return err
		}
		var decisions, events []string
		var decision, event uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&decision, &event}, func() error {
			decisions, events = append(decisions, decision.String()), append(events, event.String())
			return nil
		})
		if n = len(decisions); err != nil || n == 0 {
			return err
		}
		if _, err = tx.Exec(ctx, buryKeys, events, notify.Tombstone(user)); err == nil {
			_, err = tx.Exec(ctx, lockRecords, decisions)
		}
		if err == nil {
			_, err = tx.Exec(ctx, blankRecords, decisions)
		}
		return err
	})
	return n, err
}

// buryOldKeys takes the name of an erased user out of keys whose records are dropped.
func (l *Ledger) buryOldKeys(ctx context.Context, user string) error {
	oldest, err := l.OldestDay(ctx)
	if err != nil {
		return err
	}
	return l.erasing(ctx, "erase keys", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, buryOldKeys, user, notify.Tombstone(user), oldest.Time())
		if err == nil { // a report may have come before its record was blanked
			_, err = tx.Exec(ctx, deleteResponses, user)
		}
		return err
	})
}

// erasing runs one transaction of an erasure.
func (l *Ledger) erasing(ctx context.Context, doing string, run func(context.Context, pgx.Tx) error) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return l.transaction(ctx, doing, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, byIndex); err != nil {
			return err
		}
		return run(ctx, tx)
	})
}
