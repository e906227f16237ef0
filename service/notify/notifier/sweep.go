package notifier

import (
	"context"
	"log/slog"
	"time"

	"keyfold/engine"
)

// mark writes marks that no commit has taken along, until ctx ends.
func (n *Notifier) mark(ctx context.Context) {
	n.every(ctx, n.config.Mark, func() {
		if err := n.Processor.Mark(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("confirmed hand-overs are not marked yet", slog.Any("error", err),
				slog.String("hint", "check that the ledger can be written to; they are marked by the next sweep"))
		}
	})
}

// sweepOften hands over again what was not confirmed, until ctx ends.
func (n *Notifier) sweepOften(ctx context.Context) {
	n.every(ctx, n.config.Sweep, func() {
		n.sweep(ctx, n.ports.Clock()-engine.Millis(n.config.SweepAge.Milliseconds()))
	})
}

// sweep sweeps, if no other process does.
func (n *Notifier) sweep(ctx context.Context, before engine.Millis) {
	taken, err := n.takeSweep(ctx)
	if err != nil && ctx.Err() == nil {
		n.log.Warn("the sweep is left out: its lease cannot be taken", slog.Any("error", err),
			slog.String("hint", "check that the ledger can be reached and written to"))
	}
	if !taken {
		return
	}
	confirmed, err := n.Processor.Sweep(ctx, before)
	n.keepSweep(ctx)
	if confirmed > 0 {
		n.log.Info("notifications were handed over that an earlier attempt had left", slog.Int("dispatches", confirmed))
	}
	if err != nil && ctx.Err() == nil {
		n.log.Error("notifications that are decided NOW wait for their hand-over", slog.Any("error", err),
			slog.String("hint", "check that the receiver of dispatches takes them"))
	}
}

// sweepLease is the name of the sweep's lease.
const sweepLease = "sweep"

// takeSweep takes the sweep for as long as a slow one may take. A process that ends
// amid it keeps others from it until then.
func (n *Notifier) takeSweep(ctx context.Context) (bool, error) {
	if n.Leases == nil {
		return true, nil
	}
	now := n.ports.Clock()
	return n.Leases.Lease(ctx, sweepLease, n.id, now, now+engine.Millis(5*n.config.Sweep.Milliseconds()))
}

// keepSweep keeps the sweep until the next one of this process is due. Another process
// sweeps when this one does not.
func (n *Notifier) keepSweep(ctx context.Context) {
	if n.Leases == nil {
		return
	}
	now := n.ports.Clock()
	until := now + engine.Millis((n.config.Sweep + n.config.Sweep/2).Milliseconds())
	if _, err := n.Leases.Lease(context.WithoutCancel(ctx), sweepLease, n.id, now, until); err != nil {
		n.log.Debug("the lease of the sweep was not shortened: it ends by itself", slog.Any("error", err))
	}
}

func (n *Notifier) every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if !n.paused.Load() {
				do()
			}
		case <-ctx.Done():
			return
		}
	}
}
