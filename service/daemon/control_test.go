package daemon

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine/breaker"
	"keyfold/internal/shutdown"
	"keyfold/internal/testserver/must"
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

// unfailing are windows that hold one event.
type unfailing struct{}

func (unfailing) Failed() <-chan struct{} { return nil }
func (unfailing) Err() error              { return nil }
func (unfailing) Held() int               { return 1 }

// Where all windows were closed, consumers have the shutdown timeout without its reserve for
// their acknowledgements, and else the time for connections. Both end with closed connections,
// which errors name.
func TestShutDownIsBounded(t *testing.T) {
	const timeout = 20 * time.Second
	failed, lost := errors.New("not written"), errors.New("lost")
	for want, drained := range map[time.Duration]error{timeout - shutdown.CloseReserve: nil, shutdown.ConnCloseTimeout: failed} {
		synctest.Test(t, func(t *testing.T) {
			parent, stop := context.WithCancel(t.Context())
			stop()
			guard, err := breaker.New(breaker.DefaultConfig(), func(context.Context) error { return nil }, nil)
			must.OK(t, err)
			c := Control{Log: slog.New(slog.DiscardHandler), Consumers: []Consumer{&waiting{}, &waiting{}}}
			began, disconnected, drains := time.Now(), time.Duration(0), 0
			l := Lifecycle{
				Control: &c, Clock: shutdown.NewClock(timeout), Breaker: guard, Windows: unfailing{},
				Consume: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
				Drain:   func(context.Context) error { drains++; return drained },
				Connections: []Connection{{"the publisher", func(context.Context) error {
					disconnected = time.Since(began)
					return lost
				}}},
			}
			err = l.Run(parent)
			if !errors.Is(err, drained) && drained != nil || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lost) {
				t.Errorf("it ended with %v", err)
			}
			if !strings.Contains(err.Error(), "close the publisher: lost") || drains != 1 {
				t.Errorf("%d drains, and the error %v", drains, err)
			}
			if disconnected != want {
				t.Errorf("the windows ended with %v: the consumers had %v, want %v", drained, disconnected, want)
			}
		})
	}
}
