package main

import (
	"context"
	"slices"

	"keyfold/engine/notify"
	"keyfold/sink/ledger/memory"
)

// sized is a ledger that keeps how many bytes each stored state of a user had.
type sized struct {
	*memory.Ledger
	sizes []int
}

// Commit implements [notify.Ledger].
func (l *sized) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	for i := range changes {
		l.sizes = append(l.sizes, len(changes[i].State.Append(nil)))
	}
	return l.Ledger.Commit(ctx, changes, marks)
}

// tell adds the sizes to a report.
func (l *sized) tell(add func(name, unit string, value float64)) {
	if slices.Sort(l.sizes); len(l.sizes) > 0 {
		add("state of a user, p50", "bytes", float64(l.sizes[len(l.sizes)/2]))
		add("state of a user, p99", "bytes", float64(l.sizes[len(l.sizes)*99/100]))
	}
}
