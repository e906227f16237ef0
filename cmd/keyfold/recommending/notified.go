package recommending

import (
	"context"
	"strconv"

	"keyfold/cmd/decisions"
	"keyfold/service/dashboard"
	"keyfold/sink/ledger/postgres"
)

// ledgerConnections is enough for a look now and then.
const ledgerConnections = 2

// notified returns what `notify user show` prints.
func (p *Pages) notified(ctx context.Context, user int32) (*dashboard.Notified, error) {
	shared := decisions.Pages{Open: func(ctx context.Context) (decisions.PageLedger, error) { return p.Ledger(ctx) }}
	n, err := shared.User(ctx, strconv.Itoa(int(user)))
	if n == nil {
		n = &dashboard.Notified{}
	}
	return n, err
}

// Ledger returns the ledger of notifications.
func (p *Pages) Ledger(ctx context.Context) (*postgres.Ledger, error) {
	return p.ledger.get(ctx, func() (*postgres.Ledger, error) { return p.app.OpenLedger(ctx, ledgerConnections) })
}
