package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// sorted returns copies of deferrals, by their time.
func sorted(all []*deferral) (copies []notify.Due) {
	slices.SortFunc(all, func(a, b *deferral) int {
		return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), compare(a.Event.ID, b.Event.ID))
	})
	for _, d := range all {
		copies = append(copies, d.Due)
	}
	return copies
}

func compare(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// group names the deferrals of one digest. Its time is the slot until quiet hours
// move it.
type group struct {
	user, key string
	dueAt     engine.Millis
}

func (d *deferral) group() group { return group{d.user, d.DigestKey, d.DueAt} }

// Claim implements [notify.Deferrals].
func (l *Ledger) Claim(ctx context.Context, now, leaseEnd engine.Millis, n int) ([]notify.Due, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var due []*deferral
	for _, d := range l.waiting {
		if d.nextAt <= now {
			due = append(due, d)
		}
	}
	slices.SortFunc(due, func(a, b *deferral) int {
		return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), compare(a.Event.ID, b.Event.ID))
	})
	groups := map[group]bool{}
	for _, d := range due[:min(n, len(due))] {
		groups[d.group()] = d.DigestKey != ""
	}
	var claimed []*deferral
	for i, d := range due {
		if i < n || groups[d.group()] {
			d.nextAt = leaseEnd
			claimed = append(claimed, d)
		}
	}
	return sorted(claimed), nil
}

// Release implements [notify.Deferrals].
func (l *Ledger) Release(ctx context.Context, events []uuid.UUID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, event := range events {
		if d := l.waiting[event]; d != nil {
			d.nextAt = d.DueAt
		}
	}
	return nil
}

// NextDue implements [notify.Deferrals].
func (l *Ledger) NextDue(ctx context.Context) (next engine.Millis, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.waiting {
		if next == 0 || d.nextAt < next {
			next = d.nextAt
		}
	}
	return next, ctx.Err()
}
