package sqlite

import (
	"context"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/sqlfile"
)

const (
	// A key without a record that can be dispatched takes no place of another one.
	undispatchedKeys = `SELECT event_id, user_id, turn, decision_id, digest_id, outcome, dispatched, decided_at
		FROM notify_event_keys k WHERE outcome = 'NOW' AND NOT dispatched AND decided_at < ?
			AND EXISTS (SELECT 1 FROM notify_decisions d WHERE d.decision_id = k.decision_id AND d.event IS NOT NULL)
		ORDER BY decided_at, event_id LIMIT ?`

	// The decisions of ids, and those of the digests of ids.
	dispatchDecisions = `SELECT ` + decisionColumns + ` FROM notify_decisions WHERE decision_id IN (
			SELECT unhex(value) FROM json_each(?)
			UNION SELECT decision_id FROM notify_event_keys
				WHERE digest_id IN (SELECT unhex(value) FROM json_each(?)))
		ORDER BY seq`
)

// Undispatched implements [notify.Ledger].
func (r *Reader) Undispatched(ctx context.Context, before engine.Millis, n int) ([]notify.Dispatch, error) {
	keys, err := sqlfile.Collect(ctx, r.Reader, scanKey, undispatchedKeys, int64(before), n)
	if err != nil {
		return nil, err
	}
	return r.Dispatches(ctx, keys)
}

// Dispatches implements [notify.Ledger]. It reads the decisions of keys, and all those
// of the digests of keys.
func (r *Reader) Dispatches(ctx context.Context, keys []notify.Known) ([]notify.Dispatch, error) {
	w := ledger.WantedOf(keys)
	if w.None() {
		return nil, ctx.Err()
	}
	decided, err := sqlfile.Collect(ctx, r.Reader, scanDecision, dispatchDecisions, hexIDs(w.Decisions), hexIDs(w.Digests))
	if err != nil {
		return nil, err
	}
	return w.Join(decided), nil
}
