package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

const (
	// The version rises, so that a decision made with the former preferences
	// conflicts.
	raiseVersion = `INSERT INTO notify_users AS u (user_id, version, state, decided_at) VALUES ($1, 1, '', to_timestamp(0))
		ON CONFLICT (user_id) DO UPDATE SET version = u.version + 1`

	putPreferences = `INSERT INTO notify_preferences (user_id, preferences) VALUES ($1, $2::json)
		ON CONFLICT (user_id) DO UPDATE SET preferences = excluded.preferences, updated_at = now()`

	// The row is there to be locked.
	makeUser = `INSERT INTO notify_users (user_id, version, state, decided_at) VALUES ($1, 0, '', to_timestamp(0))
		ON CONFLICT (user_id) DO NOTHING`

	lockUser = `SELECT decided_at FROM notify_users WHERE user_id = $1 FOR UPDATE`

	buryUser = `UPDATE notify_users SET user_id = $2, version = version + 1, state = $3, decided_at = $4, erased_at = $5
		WHERE user_id = $1`

	// A NOW that is not dispatched can be dispatched no more: its text is erased.
	endDispatches = `UPDATE notify_event_keys SET dispatched = true WHERE outcome = 'NOW' AND NOT dispatched AND user_id = $1`

	deleteDeferrals = `DELETE FROM notify_deferrals WHERE user_id = $1`

	deletePreferences = `DELETE FROM notify_preferences WHERE user_id = $1`

	deleteResponses = `DELETE FROM notify_responses WHERE user_id = $1`
)

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
		_, err := tx.Exec(ctx, raiseVersion, user)
		if codeOf(err) == codeErased {
			return ledger.ErasedError(user)
		}
		if err == nil {
			_, err = tx.Exec(ctx, putPreferences, user, string(preferences))
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
