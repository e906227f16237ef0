package postgres

import (
	"context"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

const (
	undispatchedKeys = `SELECT event_id, user_id, turn, decision_id, digest_id, outcome::text, dispatched, decided_at
		FROM notify_event_keys WHERE outcome = 'NOW' AND NOT dispatched AND decided_at < $1
		ORDER BY decided_at, event_id LIMIT $2`

	// The decisions of ids, and those of the digests of ids.
	dispatchDecisions = `SELECT ` + decisionColumns + ` FROM (
			SELECT unnest($1::uuid[]) AS id
			UNION SELECT decision_id FROM notify_event_keys WHERE digest_id = ANY ($2::uuid[])) w
		CROSS JOIN LATERAL (SELECT * FROM notify_decisions d
			WHERE d.decided_at = notify_instant(w.id) AND d.decision_id = w.id LIMIT 1) d
		ORDER BY d.seq`
)

// Undispatched implements [notify.Ledger].
func (l *Ledger) Undispatched(ctx context.Context, before engine.Millis, n int) ([]notify.Dispatch, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	keys, err := collect(ctx, l, "undispatched", scanKey, undispatchedKeys, min(before, endOfTime).Time(), n)
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
	decided, err := collect(ctx, l, "dispatches", scanDecision, dispatchDecisions, texts(w.Decisions), texts(w.Digests))
	if err != nil {
		return nil, err
	}
	return w.Join(decided), nil
}
