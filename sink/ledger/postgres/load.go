package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

const (
	// The tombstone is looked for where there is no row of the user: LIMIT ends the
	// reading.
	loadUsers = `SELECT w.id, u.version, u.state, p.preferences::text, r.responses::text
		FROM unnest($1::text[], $2::text[]) AS w (id, tombstone)
		CROSS JOIN LATERAL (
			SELECT u.version, u.state FROM notify_users u WHERE u.user_id = w.id
			UNION ALL SELECT u.version, u.state FROM notify_users u WHERE u.user_id = w.tombstone
			LIMIT 1) u
		LEFT JOIN notify_preferences p ON p.user_id = w.id
		LEFT JOIN notify_responses r ON r.user_id = w.id`

	loadKeys = `SELECT event_id, user_id, turn, decision_id, digest_id, outcome::text, dispatched, decided_at
		FROM notify_event_keys WHERE event_id = ANY ($1::uuid[])`

	// A deferral whose turn is decided waits for the mark of its dispatch.
	loadDeferrals = `SELECT ` + deferralColumns + ` FROM notify_deferrals w
		WHERE w.user_id = ANY ($1) AND NOT EXISTS (
			SELECT FROM notify_event_keys k WHERE k.event_id = w.event_id AND k.turn >= w.turn)
		ORDER BY w.due_at, w.event_id`

	reportsOf = `SELECT event_id, delivery_status::text, opened_at, clicked_at, dismissed_at FROM notify_reports_of($1::uuid[])`

	// LIMIT has the planner look each id up, in the partition of its day.
	findDecisions = `SELECT d.event_id, coalesce(k.user_id, ''), d.defer_count, d.decision_id, d.digest_id, d.outcome::text,
			coalesce(k.dispatched AND k.decision_id = d.decision_id, false), d.decided_at
		FROM unnest($1::uuid[]) AS w (id)
		CROSS JOIN LATERAL (SELECT * FROM notify_decisions d
			WHERE d.decided_at = notify_instant(w.id) AND d.decision_id = w.id LIMIT 1) d
		LEFT JOIN LATERAL (SELECT * FROM notify_event_keys k WHERE k.event_id = d.event_id LIMIT 1) k ON true`
)

// Load implements [notify.Ledger] in one round trip. The users are read first: a
// commit between the reads raises a version, so that a change made of both conflicts.
func (l *Ledger) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	if len(asks) == 0 {
		return nil, ctx.Err()
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	users, waiting, events, reports := ledger.Asked(asks)
	standings, unreadable := make(map[string]notify.Standing, len(users)), map[string]error{}
	known := make(map[uuid.UUID]notify.Known, len(events))
	deferred, reported := map[string][]notify.Due{}, map[uuid.UUID]notify.Reported{}
	var batch pgx.Batch
	batch.Queue(loadUsers, users, tombstones(users)).Query(func(rows pgx.Rows) error { return readStandings(rows, standings, unreadable) })
	if len(events) > 0 {
		batch.Queue(loadKeys, texts(events)).Query(func(rows pgx.Rows) error {
			return each(rows, scanKey, func(k notify.Known) { known[k.EventID] = k })
		})
	}
	if len(waiting) > 0 {
		batch.Queue(loadDeferrals, waiting).Query(func(rows pgx.Rows) error {
			return each(rows, scanDeferral, func(d deferral) { deferred[d.user] = append(deferred[d.user], d.Due) })
		})
	}
	if len(reports) > 0 {
		batch.Queue(reportsOf, texts(reports)).Query(func(rows pgx.Rows) error { return readReports(rows, reported) })
	}
	if err := l.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, mark(ctx, "load", err)
	}
	all := ledger.Standings(asks, standings, known, deferred, reported)
	if len(unreadable) > 0 {
		return all, &notify.UnreadableError{Users: unreadable}
	}
	return all, nil
}

// readReports reads rows of reportsOf.
func readReports(rows pgx.Rows, into map[uuid.UUID]notify.Reported) error {
	var event uuid.UUID
	var d delivery
	_, err := pgx.ForEachRow(rows, []any{&event, &d.status, &d.opened, &d.clicked, &d.dismissed}, func() error {
		reported := d.value()
		into[event] = reported.Reported()
		return nil
	})
	return err
}

func tombstones(users []string) []string {
	names := make([]string, len(users))
	for i, user := range users {
		names[i] = notify.Tombstone(user)
	}
	return names
}

// readStandings reads rows of loadUsers. A row that is damaged keeps no other one.
func readStandings(rows pgx.Rows, into map[string]notify.Standing, unreadable map[string]error) error {
	var (
		s                     notify.Standing
		user                  string
		state, own, responses []byte
	)
	_, err := pgx.ForEachRow(rows, []any{&user, &s.Version, &state, &own, &responses}, func() (err error) {
		s.Preferences = notify.Preferences{}
		if s.State, err = decode.State(user, state); err == nil {
			err = decode.JSON(own, &s.Preferences)
		}
		if err == nil {
			s.Responses, err = decode.Responses(responses)
		}
		if err != nil {
			unreadable[user] = fmt.Errorf("user %q: %w", user, err)
			return nil
		}
		into[user] = s
		return nil
	})
	return err
}

// each reads all rows.
func each[T any](rows pgx.Rows, scan pgx.RowToFunc[T], visit func(T)) error {
	all, err := pgx.CollectRows(rows, scan)
	for _, v := range all {
		visit(v)
	}
	return err
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, l *Ledger, doing string, scan pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	rows, err := l.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, mark(ctx, doing, err)
	}
	all, err := pgx.CollectRows(rows, scan)
	return all, mark(ctx, doing, err)
}

// Find implements [notify.Ledger].
func (l *Ledger) Find(ctx context.Context, decisions []uuid.UUID) ([]notify.Known, error) {
	if len(decisions) == 0 {
		return []notify.Known{}, ctx.Err()
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	keys, err := collect(ctx, l, "find", scanKey, findDecisions, texts(decisions))
	if err != nil {
		return nil, err
	}
	return ledger.InOrder(decisions, keys), nil
}
