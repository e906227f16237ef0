package consuming

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/cmd/shutdown"
	"keyfold/engine/breaker"
)

// waiting is a consumer that has a state and never gets all its acknowledgements.
type waiting struct {
	counted
	state error
}

func (*waiting) GiveBack()      {}
func (w *waiting) Ready() error { return w.state }

func (*waiting) Close(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A worker is ready while its store is there, its work is fit and each consumer consumes.
func TestReady(t *testing.T) {
	away, bad, unable := errors.New("away"), errors.New("unfit"), errors.New("disconnected")
	second := &waiting{state: unable}
	c := Control{Log: slog.New(slog.DiscardHandler), Consumers: []Consumer{&waiting{}, second}}
	c.Unfit(bad)
	if err := c.Ready(breaker.State{Open: true, Cause: away}); !errors.Is(err, away) {
		t.Errorf("with the store away: %v", err)
	}
	if err := c.Ready(breaker.State{}); !errors.Is(err, bad) {
		t.Errorf("with unfit work: %v", err)
	}
	c.Unfit(nil)
	if err := c.Ready(breaker.State{}); !errors.Is(err, unable) {
		t.Errorf("with a consumer that is disconnected: %v", err)
	}
	second.state = nil
	if err := c.Ready(breaker.State{}); err != nil {
		t.Errorf("with nothing amiss: %v", err)
	}
}

// Where all windows were closed, consumers have the shutdown timeout without its reserve for
// their acknowledgements, and else the time for connections. Both end with closed connections.
func TestShutDownIsBounded(t *testing.T) {
	const timeout = 20 * time.Second
	failed := errors.New("not written")
	for want, closed := range map[time.Duration]error{timeout - shutdown.CloseReserve: nil, shutdown.ConnCloseTimeout: failed} {
		synctest.Test(t, func(t *testing.T) {
			parent, stop := context.WithCancel(t.Context())
			stop()
			c := Control{Log: slog.New(slog.DiscardHandler), Consumers: []Consumer{&waiting{}, &waiting{}}}
			began, disconnected := time.Now(), time.Duration(0)
			err := c.ShutDown(parent, shutdown.NewClock(timeout), func(context.Context) error { return closed },
				func(context.Context) error { disconnected = time.Since(began); return nil })
			if !errors.Is(err, closed) && closed != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
			if disconnected != want {
				t.Errorf("the windows ended with %v: the consumers had %v, want %v", closed, disconnected, want)
			}
		})
	}
}
