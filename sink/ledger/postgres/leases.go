package postgres

import (
	"context"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

var _ notify.Leases = (*Ledger)(nil)

const takeLease = `INSERT INTO notify_leases AS l (name, holder, lease_until) VALUES ($1, $2::uuid, $4)
	ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, lease_until = excluded.lease_until
	WHERE l.lease_until <= $3 OR l.holder = excluded.holder`

// Lease implements [notify.Leases].
func (l *Ledger) Lease(ctx context.Context, name string, holder uuid.UUID, now, until engine.Millis) (bool, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	tag, err := l.pool.Exec(ctx, takeLease, name, holder.String(), now.Time(), until.Time())
	return tag.RowsAffected() == 1, mark(ctx, "lease", err)
}
