package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/service/daemon"
)

// guarded tells a breaker how each call of a ledger ends. Each kind of calls has a
// gate of its own: reads that succeed must not hide that no write does.
type guarded struct {
	Ledger
	reads, writes, deferrals, reports daemon.CallObserver
}

func guard[G daemon.CallObserver](gate func() G, ledger Ledger) *guarded {
	return &guarded{ledger, gate(), gate(), gate(), gate()}
}

func (g *guarded) Load(ctx context.Context, asks []notify.Ask) (standings []notify.Standing, err error) {
	err = daemon.Observe(ctx, g.reads, func() error { standings, err = g.Ledger.Load(ctx, asks); return err })
	return standings, err
}

func (g *guarded) Find(ctx context.Context, decisions []uuid.UUID) (keys []notify.Known, err error) {
	err = daemon.Observe(ctx, g.reads, func() error { keys, err = g.Ledger.Find(ctx, decisions); return err })
	return keys, err
}

func (g *guarded) Undispatched(ctx context.Context, before engine.Millis, n int) (found []notify.Dispatch, err error) {
	err = daemon.Observe(ctx, g.reads, func() error { found, err = g.Ledger.Undispatched(ctx, before, n); return err })
	return found, err
}

func (g *guarded) Dispatches(ctx context.Context, keys []notify.Known) (found []notify.Dispatch, err error) {
	err = daemon.Observe(ctx, g.reads, func() error { found, err = g.Ledger.Dispatches(ctx, keys); return err })
	return found, err
}

func (g *guarded) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	g.writes.Begin()
	answers := g.Ledger.Commit(ctx, changes, marks)
	g.writes.End(daemon.StoreFailure(ctx, failures(answers)...))
	return answers
}

// failures leaves out the answer that an event was decided before.
func failures(answers []error) (errs []error) {
	for _, err := range answers {
		if _, known := errors.AsType[*notify.KnownError](err); err != nil && !known {
			errs = append(errs, err)
		}
	}
	return errs
}

func (g *guarded) Claim(ctx context.Context, now, leaseEnd engine.Millis, n int) (due []notify.Due, err error) {
	err = daemon.Observe(ctx, g.deferrals, func() error { due, err = g.Ledger.Claim(ctx, now, leaseEnd, n); return err })
	return due, err
}

func (g *guarded) Release(ctx context.Context, events []uuid.UUID) error {
	return daemon.Observe(ctx, g.deferrals, func() error { return g.Ledger.Release(ctx, events) })
}

func (g *guarded) NextDue(ctx context.Context) (due engine.Millis, err error) {
	err = daemon.Observe(ctx, g.deferrals, func() error { due, err = g.Ledger.NextDue(ctx); return err })
	return due, err
}

// waitingReports applies reports once the ledger may be asked.
type waitingReports struct {
	ledger notify.Reports
	wait   func(context.Context) (bool, error)
}

// Apply implements [notify.Reports].
func (w waitingReports) Apply(ctx context.Context, reports []notify.Report) []error {
	if _, err := w.wait(ctx); err != nil {
		return slices.Repeat([]error{fmt.Errorf("%w: %w", engine.ErrAway, err)}, len(reports))
	}
	return w.ledger.Apply(ctx, reports)
}

func (g *guarded) Apply(ctx context.Context, reports []notify.Report) []error {
	g.reports.Begin()
	answers := g.Ledger.Apply(ctx, reports)
	g.reports.End(daemon.StoreFailure(ctx, answers...))
	return answers
}
