package memory

import (
	"context"
	"slices"

	"keyfold/engine"
)

// UsersSince returns the ids of at most n users that follow one, in the order of the ids,
// with a decision at or after since. Erased ones are left out.
func (l *Ledger) UsersSince(ctx context.Context, since engine.Millis, after string, n int) (ids []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, u := range l.users {
		if id > after && u.state != nil && !u.state.Erased && u.state.DecidedAt >= since {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(n, len(ids))], ctx.Err()
}

// CountErased returns how many decisions from one instant to before another are of erased
// users.
func (l *Ledger) CountErased(ctx context.Context, from, to engine.Millis) (n int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.decisions {
		if r := &d.Record; r.UserID == "" && r.DecidedAt >= from && r.DecidedAt < to {
			n++
		}
	}
	return n, ctx.Err()
}
