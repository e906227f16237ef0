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
			n.log.Warn("confirmed hand-overs are not marked yet", slog.Any("error", err))
		}
	})
}

// sweepOften hands over again what was not confirmed, until ctx ends.
func (n *Notifier) sweepOften(ctx context.Context) {
	n.every(ctx, n.config.Sweep, func() {
		n.sweep(ctx, n.ports.Clock()-engine.Millis(n.config.SweepAge.Milliseconds()))
	})
}

func (n *Notifier) sweep(ctx context.Context, before engine.Millis) {
	confirmed, err := n.Processor.Sweep(ctx, before)
	if confirmed > 0 {
		n.log.Info("notifications were handed over that an earlier attempt had left", slog.Int("dispatches", confirmed))
	}
	if err != nil && ctx.Err() == nil {
		n.log.Error("notifications that are decided NOW wait for their hand-over", slog.Any("error", err),
			slog.String("hint", "see that the receiver of dispatches takes them"))
	}
}

func (n *Notifier) every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}
