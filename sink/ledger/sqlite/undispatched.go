package sqlite

import (
	"context"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/sqlfile"
)

const (
	undispatchedKeys = `SELECT event_id, user_id, turn, decision_id, digest_id, outcome, dispatched, decided_at
		FROM notify_event_keys WHERE outcome = 'NOW' AND NOT dispatched AND decided_at < ?
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
	var order, decisions, digests []uuid.UUID // order: ids of the dispatches
	met := map[uuid.UUID]bool{}
	for _, k := range keys {
		id := dispatchID(k.EventID, k.DigestID)
		if met[id] {
			continue
		}
		met[id] = true
		order = append(order, id)
		if k.DigestID == uuid.Nil {
			decisions = append(decisions, k.DecisionID)
		} else {
			digests = append(digests, k.DigestID)
		}
	}
	if len(order) == 0 {
		return nil, ctx.Err()
	}
	decided, err := sqlfile.Collect(ctx, r.Reader, scanDecision, dispatchDecisions, hexIDs(decisions), hexIDs(digests))
	if err != nil {
		return nil, err
	}
	byID := make(map[uuid.UUID]*notify.Dispatch, len(order))
	for _, d := range decided {
		if d.Event == nil { // its user was erased since the keys were read
			continue
		}
		id := dispatchID(d.Record.EventID, d.Record.DigestID)
		if byID[id] == nil {
			byID[id] = &notify.Dispatch{ID: id}
		}
		byID[id].Records, byID[id].Events = append(byID[id].Records, d.Record), append(byID[id].Events, d.Event)
	}
	all := make([]notify.Dispatch, 0, len(order))
	for _, id := range order {
		if byID[id] != nil {
			all = append(all, *byID[id])
		}
	}
	return all, nil
}

// dispatchID returns what the senders know a dispatch by.
func dispatchID(event, digest uuid.UUID) uuid.UUID {
	if digest != uuid.Nil {
		return digest
	}
	return event
}
