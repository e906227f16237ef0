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

// poll leases deferrals that are due and submits them, until ctx ends. It claims again
// as soon as half of what it may hold is decided: claims and decisions go on side by
// side.
func (n *Notifier) poll(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-n.room:
		case <-ctx.Done():
			return
		}
		pause, err := n.claim(ctx)
		switch {
		case errors.Is(err, shard.ErrDraining), ctx.Err() != nil:
			return
		case err != nil:
			n.log.Warn("deferrals cannot be read: they wait", slog.Any("error", err), slog.String("hint", "check that the ledger can be reached and written to"))
		}
		timer.Reset(pause)
	}
}

// claim leases what is due and submits it, and returns how long to wait before the next
// claim: until a deferral is due, and a poll at most.
func (n *Notifier) claim(ctx context.Context) (pause time.Duration, err error) {
	pause = n.config.Poll
	if n.paused.Load() {
		return pause, nil
	}
	if time.Since(n.gaveBack) >= n.config.Poll { // what fails at once does not come again at once
		n.gaveBack = time.Now()
		n.giveBack(ctx)
	}
	room := n.config.Claim - n.underWay()
	if !n.enough(room) {
		return pause, nil // n.room ends the wait
	}
	next, err := n.ports.Ledger.NextDue(ctx)
	now := n.ports.Clock()
	if err != nil || next == 0 {
		return pause, err
	}
	if next > now {
		return min(pause, time.Duration(next-now)*time.Millisecond), nil
	}
	due, err := n.ports.Ledger.Claim(ctx, now, now+engine.Millis(n.config.Lease.Milliseconds()), room)
	if len(due) == 0 {
		return pause, err
	}
	return 0, errors.Join(err, n.submitDue(ctx, due))
}

// enough reports whether a claim of so many deferrals is worth its round trips.
func (n *Notifier) enough(room int) bool { return room > 0 && 2*room >= n.config.Claim }

// submitDue submits claimed deferrals, each digest as one delivery.
func (n *Notifier) submitDue(ctx context.Context, due []notify.Due) error {
	groups := grouped(due)
	n.count(len(due))
	if err := failpoint.Hit(failpoint.Claimed); err != nil {
		n.release(due)
		return err
	}
	deliveries := make([]processor.Delivery, len(groups))
	for i, group := range groups {
		deliveries[i] = processor.Delivery{Due: group, Settler: processor.SettlerFunc(func(v processor.Verdict) { n.settle(group, v) })}
	}
	return n.Submit(ctx, deliveries)
}

// grouped puts the items of one digest together: they are decided together.
func grouped(due []notify.Due) (groups [][]notify.Due) {
	type digest struct {
		user, key string
		due       engine.Millis
	}
	at := map[digest]int{}
	for _, d := range due {
		k := digest{d.Event.User(), d.DigestKey, d.DueAt}
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
// handed over the lease stays: it is handed over again when the lease ends. It stays too
// where only this user failed, so that the user's deferrals leave room for others.
func (n *Notifier) settle(group []notify.Due, v processor.Verdict) {
	switch v.Outcome {
	case processor.Retry, processor.Park, processor.Unsettled:
		if !v.Stored() && !errors.Is(v.Err, engine.ErrOwn) {
			n.release(group)
			return
		}
	case processor.Decided:
		now := n.ports.Clock()
		for i := range group {
			n.Lag.Observe(time.Duration(max(0, now-group[i].DueAt)) * time.Millisecond)
		}
	}
	n.count(-len(group))
}

// release notes deferrals to give back: a settler must not wait for the ledger.
func (n *Notifier) release(group []notify.Due) {
	n.mu.Lock()
	for i := range group {
		n.returned = append(n.returned, group[i].Event.ID)
	}
	n.mu.Unlock()
	n.count(-len(group))
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
		n.log.Warn("leases of deferrals were not returned: they end by themselves", slog.Int("deferrals", len(events)), slog.Any("error", err),
			slog.String("hint", "nothing is to be done: another worker takes the deferrals then"))
	}
}

// count counts deferrals that are under way. It wakes the poller when there is room
// for a claim again.
func (n *Notifier) count(more int) {
	n.mu.Lock()
	before := n.claimed
	n.claimed += more
	now := n.claimed
	n.mu.Unlock()
	if !n.enough(n.config.Claim-before) && n.enough(n.config.Claim-now) {
		select {
		case n.room <- struct{}{}:
		default:
		}
	}
}

func (n *Notifier) underWay() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.claimed
}
