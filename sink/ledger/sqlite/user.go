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
		ON CONFLICT (user_id) DO UPDATE SET version = version + 1`

	readPreferences = `SELECT preferences, version FROM notify_preferences WHERE user_id = ?`

	putPreferences = `INSERT OR REPLACE INTO notify_preferences (user_id, preferences, version) VALUES (?, ?, ?)`

	userDecidedAt = `SELECT version, decided_at, erased_at IS NOT NULL FROM notify_users WHERE user_id IN (?, ?)`

	isErased = `SELECT 1 FROM notify_users WHERE user_id = ?`

	deleteUser = `DELETE FROM notify_users WHERE user_id = ?`

	putTombstone = `INSERT INTO notify_users (user_id, version, state, decided_at, erased_at) VALUES (?, ?, ?, ?, ?)`

	// A NOW that is not dispatched can be dispatched no more: its text is gone.
	eraseKeys = `UPDATE notify_event_keys SET user_id = ?2, dispatched = dispatched OR outcome = 'NOW'
		WHERE event_id IN (SELECT event_id FROM notify_decisions WHERE user_id = ?1)`
)

// eraseRest are the other statements of an erasure; they take the user.
var eraseRest = []string{
	`UPDATE notify_decisions SET user_id = NULL, print = NULL, digest_key = NULL, event = NULL, facts = NULL,
		delivery_error = NULL
		WHERE user_id = ?`,
	`DELETE FROM notify_deferrals WHERE user_id = ?`,
	`DELETE FROM notify_preferences WHERE user_id = ?`,
	`DELETE FROM notify_responses WHERE user_id = ?`,
	`DELETE FROM notify_aliases WHERE user_id = ?`,
}

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
	preferences, err := encodeJSON(&own)
	if err != nil {
		return 0, err
	}
	err = l.Write(ctx, func(tx *sqlfile.Tx) error {
		version = 0
		stored, err := storedUser(tx, user)
		if err == nil && stored.erased {
			return ledger.ErasedError(user)
		}
		if err == nil {
			err = notAlias(tx, user)
		}
		if err == nil {
			version, err = preferencesVersion(tx, user)
		}
		if err == nil {
			err = ledger.CheckVersion(ifVersion, version)
		}
		if err == nil {
			_, err = tx.Exec(raiseVersion, user)
		}
		if err == nil {
			version++
			_, err = tx.Exec(putPreferences, user, preferences, version)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

// preferencesVersion reads the version of a user's preferences; 0: none are stored.
func preferencesVersion(tx *sqlfile.Tx, user string) (version int64, err error) {
	_, err = sqlfile.Select(tx, func(rows *sql.Rows) (struct{}, error) {
		return struct{}{}, rows.Scan(new(sql.RawBytes), &version)
	}, readPreferences, user)
	return version, err
}

// Forget implements [notify.Ledger].
func (l *Ledger) Forget(ctx context.Context, id string, at engine.Millis) error {
	return l.Write(ctx, func(tx *sqlfile.Tx) error {
		user, err := userOf(tx, id)
		if err != nil {
			return err
		}
		aliases, err := sqlfile.Select(tx, scanAlias, linksTo, user)
		if err != nil {
			return err
		}
		for _, a := range aliases {
			if _, err := bury(tx, a.ID, at); err != nil {
				return err
			}
		}
		if done, err := bury(tx, user, at); err != nil || done {
			return err
		}
		if _, err := tx.Exec(eraseKeys, user, notify.Tombstone(user)); err != nil {
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

// bury puts a tombstone in the place of a user's row. It reports whether there was one.
func bury(tx *sqlfile.Tx, user string, at engine.Millis) (done bool, err error) {
	stored, err := storedUser(tx, user)
	if err != nil || stored.erased {
		return true, err
	}
	erased := ledger.Erased(stored.decidedAt, at)
	_, err = tx.Exec(putTombstone, notify.Tombstone(user), stored.version+1, erased.Append(nil), int64(erased.DecidedAt), int64(at))
	if err == nil {
		_, err = tx.Exec(deleteUser, user)
	}
	return false, err
}

// userRow is what an erasure reads of a user; zero: there is nothing.
type userRow struct {
	version   int64
	decidedAt engine.Millis
	erased    bool
}

func storedUser(tx *sqlfile.Tx, user string) (stored userRow, err error) {
	_, err = sqlfile.Select(tx, func(rows *sql.Rows) (struct{}, error) {
		return struct{}{}, rows.Scan(&stored.version, &stored.decidedAt, &stored.erased)
	}, userDecidedAt, user, notify.Tombstone(user))
	return stored, err
}

// Preferences reads a user's preferences with their version. The error is a
// [*ledger.MergedError] where the user is an alias.
func (r *Reader) Preferences(ctx context.Context, user string) (p ledger.Preferences, err error) {
	_, err = sqlfile.Collect(ctx, r.Reader, func(rows *sql.Rows) (_ struct{}, err error) {
		var own sql.RawBytes
		if err = rows.Scan(&own, &p.Version); err == nil {
			err = decode.JSON(own, &p.Own)
		}
		return
	}, readPreferences, user)
	if err != nil {
		return p, err
	}
	into, err := sqlfile.Collect(ctx, r.Reader, scanText, linkOf, user)
	if err != nil {
		return p, err
	}
	if len(into) > 0 {
		return p, &ledger.MergedError{User: user, Into: into[0]}
	}
	erased, err := sqlfile.Collect(ctx, r.Reader, func(rows *sql.Rows) (struct{}, error) { return struct{}{}, nil }, isErased, notify.Tombstone(user))
	p.Erased = len(erased) > 0
	return p, err
}
