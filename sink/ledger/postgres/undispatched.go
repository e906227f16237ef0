package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

const (
	// The NOWs decided before an instant that have no mark of their dispatch. Those
	// without a record that can be dispatched (its partition was dropped, or its user is
	// erased) are left out. LIMIT has the planner look each record up, in the partition
	// of its day.
	undispatched = `notify_event_keys k
		CROSS JOIN LATERAL (SELECT FROM notify_decisions d
			WHERE d.decided_at = k.decided_at AND d.decision_id = k.decision_id AND d.event IS NOT NULL LIMIT 1) d
		WHERE k.outcome = 'NOW' AND NOT k.dispatched AND k.decided_at < $1`

	undispatchedKeys = `SELECT k.event_id, k.user_id, k.turn, k.decision_id, k.digest_id, k.outcome::text, k.dispatched, k.decided_at
		FROM ` + undispatched + ` ORDER BY k.decided_at, k.event_id LIMIT $2`

	countUndispatched = `SELECT count(*), min(k.decided_at) FROM ` + undispatched

	// The decisions of ids, and those of the digests of ids.
	dispatchDecisions = `SELECT ` + decisionColumns + ` FROM (
			SELECT unnest($1::uuid[]) AS id
			UNION SELECT decision_id FROM notify_event_keys WHERE digest_id = ANY ($2::uuid[])) w
		CROSS JOIN LATERAL (SELECT * FROM notify_decisions d
			WHERE d.decided_at = notify_instant(w.id) AND d.decision_id = w.id LIMIT 1) d
		ORDER BY d.seq`
)

// interpreted is collect for a query whose plan names every partition and reads few of
// them. Where the server compiles such a plan (jit), that takes seconds: an expression of
// each partition is a function of its own. The setting ends with the transaction, so that
// a pooler hands it to no other client.
func interpreted[T any](ctx context.Context, l *Ledger, doing string, scan pgx.RowToFunc[T], query string, args ...any) (all []T, err error) {
	err = l.transaction(ctx, doing, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL jit = off"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, query, args...)
		if err == nil {
			all, err = pgx.CollectRows(rows, scan)
		}
		return err
	})
	return all, err
}

// Undispatched implements [notify.Ledger].
func (l *Ledger) Undispatched(ctx context.Context, before engine.Millis, n int) ([]notify.Dispatch, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	keys, err := interpreted(ctx, l, "undispatched", scanKey, undispatchedKeys, min(before, endOfTime).Time(), n)
	if err != nil {
		return nil, err
	}
	return l.Dispatches(ctx, keys)
}

// Dispatches implements [notify.Ledger]. It reads the decisions of keys, and all those
// of the digests of keys.
func (l *Ledger) Dispatches(ctx context.Context, keys []notify.Known) ([]notify.Dispatch, error) {
	w := ledger.WantedOf(keys)
	if w.None() {
		return nil, ctx.Err()
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	decided, err := interpreted(ctx, l, "dispatches", scanDecision, dispatchDecisions, texts(w.Decisions), texts(w.Digests))
	if err != nil {
		return nil, err
	}
	return w.Join(decided), nil
}
