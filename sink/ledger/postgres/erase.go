package postgres

import (
	"context"
	"errors"
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
	// Each row is looked up: no table is read whole. The server does not compile the plans
	// either, each of which names every partition: that takes seconds.
	byIndex = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)`

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

// Forget implements [notify.Ledger]. One transaction makes the tombstones of the user and of
// the aliases, and deletes preferences and deferrals: from then on no decision of the user is
// written but as of an erased one, and none is dispatched. Further ones blank the records. The
// links of the aliases are deleted last: by them a call with any of the ids goes on where
// an earlier one ended.
func (l *Ledger) Forget(ctx context.Context, id string, at engine.Millis) error {
	user, err := l.bury(ctx, id, at)
	if err != nil {
		return err
	}
	for {
		n, err := l.blank(ctx, user)
		if err != nil {
			return err
		}
		if n < blankedPerCall {
			return l.buryRest(ctx, user)
		}
	}
}

// bury makes the tombstones of a user who has an id, and of the user's aliases, unless there
// are some. It returns the user.
func (l *Ledger) bury(ctx context.Context, id string, at engine.Millis) (user string, err error) {
	for into := id; into != ""; {
		user = into
		err := l.indexed(ctx, "forget", func(ctx context.Context, tx pgx.Tx) (err error) {
			into, err = buryPerson(ctx, tx, user, at)
			return err
		})
		if codeOf(err) == codeErased {
			return user, nil
		}
		if err != nil {
			return user, err
		}
	}
	return user, nil
}

// buryPerson makes the tombstones of a user and of the user's aliases. Of one who is an alias
// it returns the other user, and has erased nothing.
func buryPerson(ctx context.Context, tx pgx.Tx, user string, at engine.Millis) (into string, err error) {
	if into, err = userOf(ctx, tx, user); err != nil || into != "" {
		return into, err
	}
	if _, err := tx.Exec(ctx, makeUser, user); err != nil {
		return "", err
	}
	var before time.Time
	switch err := tx.QueryRow(ctx, lockUser, user).Scan(&before); {
	case errors.Is(err, pgx.ErrNoRows): // another call has made the tombstone meanwhile
		return "", nil
	case err != nil:
		return "", err
	}
	// A merge may have come before the lock.
	if into, err = userOf(ctx, tx, user); err != nil || into != "" {
		return into, err
	}
	if err := buryRow(ctx, tx, user, millisOf(&before), at); err != nil {
		return "", err
	}
	for _, statement := range []string{endDispatches, deleteDeferrals, deletePreferences, deleteResponses} {
		if _, err := tx.Exec(ctx, statement, user); err != nil {
			return "", err
		}
	}
	return "", buryAliases(ctx, tx, user, at)
}

// buryAliases makes the tombstones of a user's aliases, of whom nothing else is stored.
func buryAliases(ctx context.Context, tx pgx.Tx, user string, at engine.Millis) error {
	rows, err := tx.Query(ctx, lockAliases, user)
	if err != nil {
		return err
	}
	before := map[string]engine.Millis{}
	var alias string
	var decided time.Time
	if _, err = pgx.ForEachRow(rows, []any{&alias, &decided}, func() error {
		before[alias] = millisOf(&decided)
		return nil
	}); err != nil {
		return err
	}
	for alias, decided := range before {
		if err := buryRow(ctx, tx, alias, decided, at); err != nil {
			return err
		}
	}
	return nil
}

// buryRow makes the row of a user, which is locked, the tombstone.
func buryRow(ctx context.Context, tx pgx.Tx, user string, before, at engine.Millis) error {
	tombstone := ledger.Erased(before, at)
	_, err := tx.Exec(ctx, buryUser, user, notify.Tombstone(user), tombstone.Append(nil), tombstone.DecidedAt.Time(), at.Time())
	return err
}

// blank blanks some records of an erased user, and the user's name in the keys of their
// events. It returns how many records it was.
func (l *Ledger) blank(ctx context.Context, user string) (n int, err error) {
	err = l.indexed(ctx, "blank records", func(ctx context.Context, tx pgx.Tx) error {
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

// buryRest takes the name of an erased user out of keys whose records are dropped, and deletes
// the links of the aliases.
func (l *Ledger) buryRest(ctx context.Context, user string) error {
	oldest, err := l.OldestDay(ctx)
	if err != nil {
		return err
	}
	return l.indexed(ctx, "erase keys", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, buryOldKeys, user, notify.Tombstone(user), oldest.Time())
		if err == nil { // a report may have come before its record was blanked
			_, err = tx.Exec(ctx, deleteResponses, user)
		}
		if err == nil {
			_, err = tx.Exec(ctx, deleteLinks, user)
		}
		return err
	})
}

// indexed runs a transaction whose statements look each row up.
func (l *Ledger) indexed(ctx context.Context, doing string, run func(context.Context, pgx.Tx) error) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return l.transaction(ctx, doing, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, byIndex); err != nil {
			return err
		}
		return run(ctx, tx)
	})
}
