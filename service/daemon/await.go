package daemon

import (
	"context"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/causes"
)

// AwaitStore opens the store and retries for as long as the store is away: a worker
// may start before its servers. It returns configuration faults at once.
func AwaitStore[S any](ctx context.Context, log *slog.Logger, open func(context.Context) (S, error)) (S, error) {
	log = log.With("component", "store")
	pauses := backoff.Backoff{Min: time.Second, Max: 5 * time.Second}
	for attempt := 1; ; attempt++ {
		store, err := open(ctx)
		if err == nil || engine.KindOf(err) == engine.Configuration || ctx.Err() != nil {
			return store, err
		}
		pause := pauses.Next()
		if attempt == 1 { // the end is the line "worker started"
			log.Error("store not reachable: the worker waits for it", slog.Duration("retry_in", pause), slog.Any("error", err),
				slog.String("hint", causes.Hint(err, "the worker starts by itself then")))
		}
		if !backoff.Sleep(ctx, pause) {
			return store, context.Cause(ctx)
		}
	}
}

// UnlessStopped returns err unless ctx has ended.
func UnlessStopped(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}
