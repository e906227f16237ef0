package postgres

import (
	"context"
	"encoding/json"
	"fmt"

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

	// The user's row is locked by then, and with it the version of the preferences, and
	// whether the user is an alias.
	preferencesVersion = `SELECT coalesce(max(version), 0), (SELECT a.user_id FROM notify_aliases a WHERE a.alias = $1)
		FROM notify_preferences WHERE user_id = $1`

	putPreferences = `INSERT INTO notify_preferences AS p (user_id, preferences) VALUES ($1, $2::json)
		ON CONFLICT (user_id) DO UPDATE SET preferences = excluded.preferences, version = p.version + 1, updated_at = now()
		RETURNING version`

	readPreferences = `SELECT p.preferences::text, coalesce(p.version, 0), EXISTS (SELECT FROM notify_users u WHERE u.user_id = $2),
			(SELECT a.user_id FROM notify_aliases a WHERE a.alias = $1)
		FROM (SELECT) AS one LEFT JOIN notify_preferences p ON p.user_id = $1`

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

// SetPreferences replaces a user's preferences, whatever is stored.
func (l *Ledger) SetPreferences(ctx context.Context, user string, own notify.Preferences) error {
	_, err := l.UpdatePreferences(ctx, user, ledger.AnyVersion, own)
	return err
}

// UpdatePreferences replaces a user's preferences of a version and returns the next one. It
// raises the user's version too, so that a decision made with the former ones conflicts. The
// error is a [*ledger.VersionError] where others are stored, and a [*ledger.MergedError] where
// the user is an alias.
func (l *Ledger) UpdatePreferences(ctx context.Context, user string, ifVersion int64, own notify.Preferences) (version int64, err error) {
	preferences, err := json.Marshal(&own)
	if err != nil {
		return 0, err
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	var refused error
	err = l.transaction(ctx, "set preferences", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, raiseVersion, user)
		if codeOf(err) == codeErased {
			return ledger.ErasedError(user)
		}
		var stored int64
		var into *string
		if err == nil {
			err = tx.QueryRow(ctx, preferencesVersion, user).Scan(&stored, &into)
		}
		if err != nil {
			return err
		}
		if refused = merged(user, into); refused == nil {
			refused = ledger.CheckVersion(ifVersion, stored)
		}
		if err = refused; err == nil {
			err = tx.QueryRow(ctx, putPreferences, user, string(preferences)).Scan(&version)
		}
		return err
	})
	if refused != nil {
		return 0, refused
	}
	return version, err
}

// merged returns the error of preferences of a user who is an alias of another one.
func merged(user string, into *string) error {
	if into == nil {
		return nil
	}
	return &ledger.MergedError{User: user, Into: *into}
}

// Preferences reads a user's preferences with their version. The error is a
// [*ledger.MergedError] where the user is an alias.
func (l *Ledger) Preferences(ctx context.Context, user string) (p ledger.Preferences, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	var own []byte
	var into *string
	if err := l.pool.QueryRow(ctx, readPreferences, user, notify.Tombstone(user)).Scan(&own, &p.Version, &p.Erased, &into); err != nil {
		return p, mark(ctx, "read preferences", err)
	}
	if !p.Erased { // an erasure deletes links last
		if err := merged(user, into); err != nil {
			return p, err
		}
	}
	if err := decode.JSON(own, &p.Own); err != nil {
		return p, fmt.Errorf("user %q: %w", user, err)
	}
	return p, nil
}

// transaction runs a function that is carried out whole or not at all.
func (l *Ledger) transaction(ctx context.Context, doing string, run func(pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, l.pool, run)
	if engine.ReasonOf(err) != "error" { // it has its kind
		return err
	}
	return mark(ctx, doing, err)
}
