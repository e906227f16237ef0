package memory

import (
	"context"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

var _ notify.Leases = (*Ledger)(nil)

// lease is the work of a name.
type lease struct {
	holder uuid.UUID
	until  engine.Millis
}

// Lease implements [notify.Leases].
func (l *Ledger) Lease(ctx context.Context, name string, holder uuid.UUID, now, until engine.Millis) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.leases[name]; held.until > now && held.holder != holder {
		return false, nil
	}
	l.leases[name] = lease{holder, until}
	return true, nil
}
