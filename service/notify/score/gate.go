package score

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"keyfold/engine/notify"
)

// gate leaves a server alone that has failed, or was late, some times in a row. Then one
// call at a time, after a pause, looks whether it is back. All calls between are refused
// at once.
//
// A decision that waited behind one that was late must not wait again: for as long as
// the patience after a late answer, calls are refused too.
type gate struct {
	circuit    *gobreaker.CircuitBreaker[struct{}]
	late, away notify.Skip
	patience   time.Duration
	lastLate   atomic.Pointer[time.Time] // nil: no answer was late
}

func newGate(c Config, server string, late, away notify.Skip, log *slog.Logger) *gate {
	return &gate{late: late, away: away, patience: c.Patience, circuit: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: server, MaxRequests: 1, Timeout: c.OpenFor,
		ReadyToTrip: func(n gobreaker.Counts) bool { return int(n.ConsecutiveFailures) >= c.Failures },
		// A call whose caller has ended says nothing.
		IsExcluded: func(err error) bool { return errors.Is(err, context.Canceled) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed:
				log.Warn("scores are made without the users' taste", slog.String("server", server),
					slog.String("hint", "decisions go on; taste takes part again by itself when the server answers in time"))
			case to == gobreaker.StateClosed:
				log.Info("the users' taste takes part in scores again", slog.String("server", server))
			}
		},
	})}
}

// pass makes a call unless the server is left alone. It returns why there is no answer,
// "" where there is one.
func (g *gate) pass(call func() error) notify.Skip {
	if last := g.lastLate.Load(); last != nil && time.Since(*last) < g.patience && !g.open() {
		return g.late
	}
	_, err := g.circuit.Execute(func() (struct{}, error) { return struct{}{}, call() })
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		now := time.Now()
		g.lastLate.Store(&now)
		return g.late
	case errors.Is(err, context.Canceled):
		return g.late
	default:
		return g.away
	}
}

// open reports whether the server is left alone.
func (g *gate) open() bool { return g.circuit.State() != gobreaker.StateClosed }
