package recommending

import (
	"context"
	"strconv"
	"strings"

	"keyfold/service/dashboard"
	"keyfold/service/notify/users"
	"keyfold/sink/ledger/postgres"
)

// decisionsShown is how many of a user's decisions are shown.
const decisionsShown = 10

// ledgerConnections is enough for a look now and then.
const ledgerConnections = 2

// notified returns what `notify user show` prints.
func (p *Pages) notified(ctx context.Context, user int32) (*dashboard.Notified, error) {
	l, err := p.decisions(ctx)
	if err != nil {
		return nil, err
	}
	shown, err := users.Show(ctx, l, strconv.Itoa(int(user)), decisionsShown)
	if err != nil || shown == nil {
		return &dashboard.Notified{}, err
	}
	n := &dashboard.Notified{}
	for _, w := range shown.Waiting {
		n.Waiting = append(n.Waiting, dashboard.Deferred{Due: w.DueAt, Type: w.Type, EventID: w.EventID, Turn: w.Turn})
	}
	for i := range shown.Decisions {
		r := &shown.Decisions[i]
		n.Decided = append(n.Decided, dashboard.Decided{
			At: r.DecidedAt.Time(), Outcome: r.Outcome.String(), Type: r.Type.String(), Reasons: strings.Join(r.Reasons, ", "), EventID: r.EventID.String(),
		})
	}
	return n, nil
}

func (p *Pages) decisions(ctx context.Context) (*postgres.Ledger, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ledger == nil {
		l, err := p.app.OpenLedger(ctx, ledgerConnections)
		if err != nil {
			return nil, err
		}
		p.ledger = l
	}
	return p.ledger, nil
}
