package sqlite

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/sqlfile"
)

const (
	loadUsers = `SELECT u.user_id, u.version, u.state, p.preferences, r.responses
		FROM notify_users u LEFT JOIN notify_preferences p ON p.user_id = u.user_id
		LEFT JOIN notify_responses r ON r.user_id = u.user_id
		WHERE u.user_id IN (SELECT value FROM json_each(?))`

	loadKeys = `SELECT event_id, user_id, turn, decision_id, digest_id, outcome, dispatched, decided_at
		FROM notify_event_keys WHERE event_id IN (SELECT unhex(value) FROM json_each(?))`

	// A deferral whose turn is decided waits for the mark of its dispatch.
	loadDeferrals = `SELECT ` + deferralColumns + ` FROM notify_deferrals d
		WHERE user_id IN (SELECT value FROM json_each(?)) AND NOT EXISTS (
			SELECT 1 FROM notify_event_keys k WHERE k.event_id = d.event_id AND k.turn >= d.turn)
		ORDER BY due_at, event_id`

	reportsOf = `SELECT k.event_id, d.delivery_status, d.delivered_at, d.delivery_channel, d.delivery_error, d.opened_at, d.clicked_at, d.dismissed_at
		FROM notify_event_keys k JOIN notify_decisions d ON d.decision_id = k.decision_id
		WHERE k.event_id IN (SELECT unhex(value) FROM json_each(?))`

	findDecisions = `SELECT d.event_id, coalesce(k.user_id, ''), d.turn, d.decision_id, d.digest_id, d.outcome,
			coalesce(k.dispatched AND k.decision_id = d.decision_id, 0), d.decided_at
		FROM notify_decisions d LEFT JOIN notify_event_keys k ON k.event_id = d.event_id
		WHERE d.decision_id IN (SELECT unhex(value) FROM json_each(?))`
)

// Load implements [notify.Ledger]. The users are read first: a commit
// between the reads raises a version, so that a change made of both conflicts.
func (r *Reader) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	users, waiting, events, reports := ledger.Asked(asks)
	standings, err := r.loadUsers(ctx, users)
	if err != nil {
		return nil, err
	}
	known, err := r.known(ctx, loadKeys, events)
	if err != nil {
		return nil, err
	}
	deferred, err := r.loadDeferrals(ctx, waiting)
	if err != nil {
		return nil, err
	}
	reported, err := r.reportsOf(ctx, reports)
	if err != nil {
		return nil, err
	}
	return ledger.Standings(asks, standings, known, deferred, reported), nil
}

// reportsOf reads what was reported of the newest decisions of events.
func (r *Reader) reportsOf(ctx context.Context, events []uuid.UUID) (map[uuid.UUID]notify.Reported, error) {
	if len(events) == 0 {
		return nil, ctx.Err()
	}
	all := make(map[uuid.UUID]notify.Reported, len(events))
	_, err := sqlfile.Collect(ctx, r.Reader, func(rows *sql.Rows) (_ struct{}, err error) {
		var event uuid.UUID
		var stored delivery
		err = rows.Scan(append([]any{&event}, stored.columns()...)...)
		reported := stored.value()
		all[event] = reported.Reported()
		return
	}, reportsOf, hexIDs(events))
	return all, err
}

func (r *Reader) loadUsers(ctx context.Context, users []string) (map[string]notify.Standing, error) {
	all := make(map[string]notify.Standing, len(users))
	if len(users) == 0 {
		return all, ctx.Err()
	}
	names := make(map[string]string, 2*len(users)) // of rows, to users
	for _, user := range users {
		names[user], names[notify.Tombstone(user)] = user, user
	}
	_, err := sqlfile.Collect(ctx, r.Reader, func(rows *sql.Rows) (_ struct{}, err error) {
		var (
			s                     notify.Standing
			user                  string
			state, own, responses sql.RawBytes
		)
		if err = rows.Scan(&user, &s.Version, &state, &own, &responses); err != nil {
			return
		}
		if s.Responses, err = decode.Responses(responses); err != nil {
			return
		}
		if s.State, err = decode.State(user, state); err != nil {
			return
		}
		err = decode.JSON(own, &s.Preferences)
		all[names[user]] = s
		return
	}, loadUsers, jsonTexts(slices.Collect(maps.Keys(names))))
	return all, err
}

// known reads keys with a statement that takes ids, by their event_id.
func (r *Reader) known(ctx context.Context, query string, ids []uuid.UUID) (map[uuid.UUID]notify.Known, error) {
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	keys, err := sqlfile.Collect(ctx, r.Reader, scanKey, query, hexIDs(ids))
	if err != nil {
		return nil, err
	}
	all := make(map[uuid.UUID]notify.Known, len(keys))
	for _, k := range keys {
		all[k.EventID] = k
	}
	return all, nil
}

// scanKey reads a row of loadKeys or findDecisions.
func scanKey(rows *sql.Rows) (k notify.Known, err error) {
	var outcome sql.RawBytes
	err = rows.Scan(&k.EventID, &k.User, &k.Turn, &k.DecisionID, &k.DigestID, &outcome, &k.Dispatched, &k.DecidedAt)
	k.Outcome = notify.ParseOutcome(string(outcome))
	return k, err
}

func (r *Reader) loadDeferrals(ctx context.Context, users []string) (map[string][]notify.Due, error) {
	if len(users) == 0 {
		return nil, ctx.Err()
	}
	deferrals, err := sqlfile.Collect(ctx, r.Reader, scanDeferral, loadDeferrals, jsonTexts(users))
	if err != nil {
		return nil, err
	}
	all := make(map[string][]notify.Due, len(users))
	for _, d := range deferrals {
		due, err := d.due()
		if err != nil {
			return nil, err
		}
		all[d.user] = append(all[d.user], due)
	}
	return all, nil
}

// Find implements [notify.Ledger].
func (r *Reader) Find(ctx context.Context, decisions []uuid.UUID) ([]notify.Known, error) {
	if len(decisions) == 0 {
		return []notify.Known{}, ctx.Err()
	}
	keys, err := sqlfile.Collect(ctx, r.Reader, scanKey, findDecisions, hexIDs(decisions))
	if err != nil {
		return nil, err
	}
	return ledger.InOrder(decisions, keys), nil
}
