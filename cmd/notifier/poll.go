package notifier

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/shard"
)

// poll leases deferrals that are due and submits them, until ctx ends.
func (n *Notifier) poll(ctx context.Context) {
	ticker := time.NewTicker(n.config.Poll)
	defer ticker.Stop()
	for {
		more, err := n.claim(ctx)
		switch {
		case errors.Is(err, shard.ErrDraining), ctx.Err() != nil:
			return
		case err != nil:
			n.log.Warn("deferrals cannot be read: they wait", slog.Any("error", err), slog.String("hint", "see that the ledger can be reached and written to"))
		case more:
			continue
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// claim leases what is due, if as much is not under way already. more says that
// there may be more of it.
func (n *Notifier) claim(ctx context.Context) (more bool, err error) {
	n.giveBack(ctx)
	room := n.config.Claim - n.underWay()
	if room <= 0 {
		return false, nil
	}
	next, err := n.ports.Ledger.NextDue(ctx)
	now := n.ports.Clock()
	if err != nil || next == 0 || next > now {
		return false, err
	}
	due, err := n.ports.Ledger.Claim(ctx, now, now+engine.Millis(n.config.Lease.Milliseconds()), room)
	if err != nil || len(due) == 0 {
		return false, err
	}
	groups := grouped(due)
	n.count(len(due))
	if err := failpoint.Hit(failpoint.Claimed); err != nil {
		n.release(due)
		return false, err
	}
	deliveries := make([]processor.Delivery, len(groups))
	for i, group := range groups {
		deliveries[i] = processor.Delivery{Due: group, Settler: processor.SettlerFunc(func(v processor.Verdict) { n.settle(group, v) })}
	}
	for i := range deliveries {
		if err := n.Submit(ctx, deliveries[i:i+1]); err != nil {
			for _, group := range groups[i:] {
				n.release(group)
			}
			return false, err
		}
	}
	return len(due) >= room, nil
}

// grouped puts the items of one digest together: they are decided together.
func grouped(due []notify.Due) (groups [][]notify.Due) {
	type digest struct {
		user, key string
		due       engine.Millis
	}
	at := map[digest]int{}
	for _, d := range due {
		k := digest{d.Event.UserID, d.DigestKey, d.DueAt}
		i, ok := at[k]
		if d.DigestKey == "" || !ok {
			i = len(groups)
			groups = append(groups, nil)
			at[k] = i
		}
		groups[i] = append(groups[i], d)
	}
	return groups
}

// settle ends the lease of deferrals that were not decided. Of a NOW that was not
// handed over the lease stays: it is handed over again when the lease ends.
func (n *Notifier) settle(group []notify.Due, v processor.Verdict) {
	switch v.Outcome {
	case processor.Retry, processor.Park, processor.Unsettled:
		if len(v.Records) == 0 && v.Key.Outcome == 0 {
			n.release(group)
			return
		}
	}
	n.count(-len(group))
}

// release notes deferrals to give back: a settler must not wait for the ledger.
func (n *Notifier) release(group []notify.Due) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.claimed -= len(group)
	for i := range group {
		n.returned = append(n.returned, group[i].Event.ID)
	}
}

// giveBack returns leased deferrals, which are due again at once.
func (n *Notifier) giveBack(ctx context.Context) {
	n.mu.Lock()
	events := n.returned
	n.returned = nil
	n.mu.Unlock()
	if len(events) == 0 {
		return
	}
	if err := n.ports.Ledger.Release(ctx, events); err != nil { // their lease ends by itself
		n.log.Warn("leases of deferrals were not returned: they end by themselves", slog.Int("deferrals", len(events)), slog.Any("error", err))
	}
}

func (n *Notifier) count(more int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.claimed += more
}

func (n *Notifier) underWay() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.claimed
}
