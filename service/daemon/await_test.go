package daemon

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// However long a store was away, a worker that waits for it is there within seconds of its return.
func TestAwaitStoreAfterALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // pauses are drawn
			awaitAfter(t, time.Hour)
		}
	})
}

func awaitAfter(t *testing.T, away time.Duration) {
	t.Helper()
	back := time.Now().Add(away)
	got, err := AwaitStore(t.Context(), slog.New(slog.DiscardHandler), func(context.Context) (int, error) {
		if time.Now().Before(back) {
			return 0, errors.New("away")
		}
		return 7, nil
	})
	if late := time.Since(back); err != nil || got != 7 || late > 5*time.Second {
		t.Errorf("%d, %v, %v after its return", got, err, late)
	}
}
