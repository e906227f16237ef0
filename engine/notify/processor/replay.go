package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// deferred returns a user's stored deferrals that wait for a decision. The row of a
// NOW stays until its dispatch is marked: it waits for no decision.
func (f *flush) deferred(w *work) []notify.Due {
	return slices.DeleteFunc(slices.Clone(w.standing.Deferred), func(item notify.Due) bool {
		return f.marks.has(item.Event.ID) || w.decidedBefore(&item)
	})
}

// decideWaiting decides the user's deferrals that are due at or before an instant,
// each at its time. What it defers again may be due before that instant too.
func (p *planner) decideWaiting(until engine.Millis) {
	for {
		items := p.work.takeDue(until)
		if len(items) == 0 {
			return
		}
		p.decide(items, items[0].DueAt)
	}
}

// takeDue takes the first deferral out of those that wait, if it is due: one event,
// or all items of a digest that are due together.
func (w *work) takeDue(until engine.Millis) (items []notify.Due) {
	if len(w.waiting) == 0 {
		return nil
	}
	first := slices.MinFunc(w.waiting, func(a, b notify.Due) int {
		return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), compareItems(a, b))
	})
	if first.DueAt > until {
		return nil
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(d notify.Due) bool {
		taken := d.Event.ID == first.Event.ID || first.DigestKey != "" && sameDigest(&d, &first)
		if taken {
			items = append(items, d)
		}
		return taken
	})
	sortItems(items)
	return items
}

func sameDigest(a, b *notify.Due) bool {
	return a.DigestKey == b.DigestKey && a.DueAt == b.DueAt
}

// finishChunk is how many deferrals one step of [Processor.FinishReplay] claims.
const finishChunk = 1000

// FinishReplay decides the deferrals that are left when the events of a replay have
// ended, each at its time, until none waits. No call of Apply may be under way.
func (p *Processor) FinishReplay(ctx context.Context) error {
	const hour, mostHours = engine.Millis(3_600_000), 8 * 24
	for idle := 0; ; {
		due, err := p.ports.Ledger.NextDue(ctx)
		if err != nil {
			return fmt.Errorf("look for deferrals: %w", err)
		}
		if due == 0 {
			return nil
		}
		// A lease that ends when the deferral is due leaves its time as it is.
		items, err := p.ports.Ledger.Claim(ctx, due, due, finishChunk)
		if err != nil {
			return fmt.Errorf("read deferrals: %w", err)
		}
		progress, err := p.finishUsers(ctx, items)
		if err != nil {
			return err
		}
		if progress {
			idle = 0
			continue
		}
		// What is left of this time is decided NOW and was not handed over: others
		// go on, past it.
		if idle++; idle > mostHours {
			return errNotHandedOver
		}
		if _, err := p.ports.Ledger.Claim(ctx, due, due+hour, finishChunk); err != nil {
			return fmt.Errorf("read deferrals: %w", err)
		}
	}
}

var errNotHandedOver = errors.New("some notifications that were decided NOW could not be handed over: check that the receiver takes them, and run it again")

// finishUsers decides all deferrals of the users of some, and reports whether that
// changed anything.
func (p *Processor) finishUsers(ctx context.Context, items []notify.Due) (progress bool, err error) {
	var (
		batches []Batch
		faults  []error
		before  = p.stats.Commits.Load() + p.stats.Marked.Load()
		met     = map[string]bool{}
	)
	for _, item := range items {
		user := item.Event.User()
		if met[user] {
			continue
		}
		met[user] = true
		batches = append(batches, Batch{User: user, Deliveries: []Delivery{{
			At: endOfTime, finish: true,
			Settler: SettlerFunc(func(v Verdict) { // called by Apply's own goroutine
				if v.Outcome != Decided {
					faults = append(faults, v.Err)
				}
			}),
		}}})
	}
	p.Apply(ctx, batches)
	if err := errors.Join(faults...); err != nil {
		return false, fmt.Errorf("decide what waits: %w", err)
	}
	// Only its mark removes the row of a NOW: without it, it would be found again.
	if err := p.Mark(ctx); err != nil {
		return false, err
	}
	return p.stats.Commits.Load()+p.stats.Marked.Load() > before, nil
}
