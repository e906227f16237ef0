package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

const (
	// The version rises, so that a decision made with the former preferences
	// conflicts.
	raiseVersion = `INSERT INTO notify_users AS u (user_id, version, state, decided_at) VALUES ($1, 1, '', to_timestamp(0))
		ON CONFLICT (user_id) DO UPDATE SET version = u.version + 1 WHERE u.erased_at IS NULL`

	putPreferences = `INSERT INTO notify_preferences (user_id, preferences) VALUES ($1, $2::json)
		ON CONFLICT (user_id) DO UPDATE SET preferences = excluded.preferences, updated_at = now()`

	// The row is there to be locked.
	makeUser = `INSERT INTO notify_users (user_id, version, state, decided_at) VALUES ($1, 0, '', to_timestamp(0))
		ON CONFLICT (user_id) DO NOTHING`

	lockUser = `SELECT decided_at, erased_at IS NOT NULL FROM notify_users WHERE user_id = $1 FOR UPDATE`

	eraseUser = `UPDATE notify_users SET version = version + 1, state = $2, decided_at = $3, erased_at = $4 WHERE user_id = $1`
)

// eraseRest are the other statements of an erasure; they take the user. A NOW that
// is not dispatched can be dispatched no more: its text is gone.
var eraseRest = []string{
	`UPDATE notify_event_keys SET dispatched = true WHERE outcome = 'NOW' AND NOT dispatched
		AND event_id IN (SELECT event_id FROM notify_decisions WHERE user_id = $1)`,
	// Reports lock decisions in this order.
	`SELECT FROM notify_decisions WHERE user_id = $1 ORDER BY decision_id FOR UPDATE`,
	`UPDATE notify_decisions SET user_id = NULL, print = NULL, digest_key = NULL, event = NULL, facts = NULL,
		delivery_error = NULL
		WHERE user_id = $1`,
	`DELETE FROM notify_deferrals WHERE user_id = $1`,
	`DELETE FROM notify_preferences WHERE user_id = $1`,
}

// SetPreferences replaces a user's preferences. It raises the user's version, so
// that a decision made with the former ones conflicts.
func (l *Ledger) SetPreferences(ctx context.Context, user string, own notify.Preferences) error {
	preferences, err := json.Marshal(&own)
	if err != nil {
		return err
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return l.transaction(ctx, "set preferences", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, raiseVersion, user)
		if err == nil && tag.RowsAffected() == 0 {
			return ledger.ErasedError(user)
		}
		if err == nil {
			_, err = tx.Exec(ctx, putPreferences, user, string(preferences))
		}
		return err
	})
}

// Forget implements [notify.Ledger]. The id of the user stays in the tombstone and
// in the keys of its events, which say that these are decided.
func (l *Ledger) Forget(ctx context.Context, user string, at engine.Millis) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return l.transaction(ctx, "forget", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, makeUser, user); err != nil {
			return err
		}
		var before time.Time
		var erased bool
		if err := tx.QueryRow(ctx, lockUser, user).Scan(&before, &erased); err != nil || erased {
			return err
		}
		tombstone := ledger.Erased(millisOf(&before), at)
		_, err := tx.Exec(ctx, eraseUser, user, tombstone.Append(nil), tombstone.DecidedAt.Time(), at.Time())
		for _, statement := range eraseRest {
			if err == nil {
				_, err = tx.Exec(ctx, statement, user)
			}
		}
		return err
	})
}

// transaction runs a function that is carried out whole or not at all.
func (l *Ledger) transaction(ctx context.Context, doing string, run func(pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, l.pool, run)
	if engine.ReasonOf(err) != "error" { // it has its kind
		return err
	}
	return mark(ctx, doing, err)
}
