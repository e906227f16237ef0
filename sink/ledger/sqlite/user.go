package sqlite

import (
	"context"
	"database/sql"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/sqlfile"
)

const (
	// The version rises, so that a decision made with the former preferences
	// conflicts.
	raiseVersion = `INSERT INTO notify_users (user_id, version, state, decided_at) VALUES (?, 1, x'', 0)
		ON CONFLICT (user_id) DO UPDATE SET version = version + 1 WHERE erased_at IS NULL`

	putPreferences = `INSERT OR REPLACE INTO notify_preferences (user_id, preferences) VALUES (?, ?)`

	userDecidedAt = `SELECT decided_at, erased_at IS NOT NULL FROM notify_users WHERE user_id = ?`

	eraseUser = `INSERT INTO notify_users (user_id, version, state, decided_at, erased_at) VALUES (?1, 1, ?2, ?3, ?4)
		ON CONFLICT (user_id) DO UPDATE SET version = version + 1, state = excluded.state,
			decided_at = excluded.decided_at, erased_at = excluded.erased_at`
)

// eraseRest are the other statements of an erasure; they take the user. A NOW that
// is not dispatched can be dispatched no more: its text is gone.
var eraseRest = []string{
	`UPDATE notify_event_keys SET dispatched = 1 WHERE outcome = 'NOW'
		AND event_id IN (SELECT event_id FROM notify_decisions WHERE user_id = ?)`,
	`UPDATE notify_decisions SET user_id = NULL, print = NULL, digest_key = NULL, event = NULL, facts = NULL,
		delivery_error = NULL
		WHERE user_id = ?`,
	`DELETE FROM notify_deferrals WHERE user_id = ?`,
	`DELETE FROM notify_preferences WHERE user_id = ?`,
}

// SetPreferences replaces a user's preferences. It raises the user's version, so
// that a decision made with the former ones conflicts.
func (l *Ledger) SetPreferences(ctx context.Context, user string, own notify.Preferences) error {
	preferences, err := encodeJSON(&own)
	if err != nil {
		return err
	}
	return l.Write(ctx, func(tx *sqlfile.Tx) error {
		result, err := tx.Exec(raiseVersion, user)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err == nil && n == 0 {
			return ledger.ErasedError(user)
		}
		if err == nil {
			_, err = tx.Exec(putPreferences, user, preferences)
		}
		return err
	})
}

// Forget implements [notify.Ledger]. The id of the user stays in the tombstone and
// in the keys of its events, which say that these are decided.
func (l *Ledger) Forget(ctx context.Context, user string, at engine.Millis) error {
	return l.Write(ctx, func(tx *sqlfile.Tx) error {
		erased, err := tombstone(tx, user, at)
		if err != nil || erased == nil {
			return err
		}
		if _, err := tx.Exec(eraseUser, user, erased.Append(nil), int64(erased.DecidedAt), int64(at)); err != nil {
			return err
		}
		for _, statement := range eraseRest {
			if _, err := tx.Exec(statement, user); err != nil {
				return err
			}
		}
		return nil
	})
}

// tombstone returns the state of a user that is to be erased; nil: it is erased.
func tombstone(tx *sqlfile.Tx, user string, at engine.Millis) (*notify.State, error) {
	var before engine.Millis
	var erased bool
	_, err := sqlfile.Select(tx, func(rows *sql.Rows) (struct{}, error) {
		return struct{}{}, rows.Scan(&before, &erased)
	}, userDecidedAt, user)
	if err != nil || erased {
		return nil, err
	}
	return ledger.Erased(before, at), nil
}
