package notifier

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/metric"
)

// Waiting tells what waits in a ledger.
type Waiting interface {
	// Backlog returns how many deferrals wait, up to a bound, and when the oldest NOW was
	// decided whose hand-over is not confirmed; 0: there is none.
	Backlog(ctx context.Context) (deferred int64, undispatched engine.Millis, err error)
}

// Backlog watches what waits in a ledger.
type Backlog struct{ seen atomic.Pointer[backlog] }

// backlog is one look; NaN stands for what is not known.
type backlog struct{ deferred, undispatched float64 }

var unknown = backlog{math.NaN(), math.NaN()}

// NewBacklog returns a backlog that is not known yet.
func NewBacklog() *Backlog {
	b := &Backlog{}
	b.seen.Store(&unknown)
	return b
}

// Watch looks every minute, until ctx ends.
func (b *Backlog) Watch(ctx context.Context, ledger Waiting, now func() engine.Millis, log *slog.Logger) {
	for {
		b.look(ctx, ledger, now, log)
		if !backoff.Sleep(ctx, time.Minute) {
			return
		}
	}
}

func (b *Backlog) look(ctx context.Context, ledger Waiting, now func() engine.Millis, log *slog.Logger) {
	deferred, oldest, err := ledger.Backlog(ctx)
	if err != nil {
		b.seen.Store(&unknown)
		if ctx.Err() == nil {
			log.Debug("what waits in the ledger is not counted", slog.Any("error", err))
		}
		return
	}
	age := 0.0
	if oldest != 0 {
		age = float64(max(0, now()-oldest)) / 1000
	}
	b.seen.Store(&backlog{float64(deferred), age})
}

// Register adds the series to set. While the ledger is away they are left out.
func (b *Backlog) Register(set *metric.Set) {
	set.Gauge("keyfold_notify_deferred", "Notifications that wait for their next turn, in all the ledger; counted each minute, up to 100,000.",
		func() float64 { return b.seen.Load().deferred })
	set.Gauge("keyfold_notify_oldest_undispatched_seconds", "Age of the oldest decision NOW whose hand-over is not confirmed, at the look of the minute; 0: there is none.",
		func() float64 { return b.seen.Load().undispatched })
}
