package postgres

import (
	"context"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
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
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	decided, err := collect(ctx, l, "dispatches", scanDecision, dispatchDecisions, texts(decisions), texts(digests))
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
