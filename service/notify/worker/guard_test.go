package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

var errDown = errors.New("connection refused")

// answering is a ledger whose calls all answer alike.
type answering struct {
	*fake
	err error
}

func (a answering) Load(context.Context, []notify.Ask) ([]notify.Standing, error) { return nil, a.err }

func (a answering) Find(context.Context, []uuid.UUID) ([]notify.Known, error) { return nil, a.err }

func (a answering) Undispatched(context.Context, engine.Millis, int) ([]notify.Dispatch, error) {
	return nil, a.err
}

func (a answering) Commit(context.Context, []notify.Change, []notify.DispatchMark) []error {
	return []error{nil, a.err}
}

func (a answering) Claim(context.Context, engine.Millis, engine.Millis, int) ([]notify.Due, error) {
	return nil, a.err
}
func (a answering) Release(context.Context, []uuid.UUID) error     { return a.err }
func (a answering) NextDue(context.Context) (engine.Millis, error) { return 0, a.err }
func (a answering) Apply(context.Context, []notify.Report) []error { return []error{nil, a.err} }

// gate is a call observer that counts.
type gate struct {
	begun, ended int
	last         error
}

func (g *gate) Begin()        { g.begun++ }
func (g *gate) End(err error) { g.ended++; g.last = err }

// Each kind of calls has a gate of its own, which hears of the ledger's failures and
// not of its answers.
//
// Promise(ledger/locked-user, notify-worker/start)
func TestGatesHearOfFailures(t *testing.T) {
	calls := []struct {
		gate int
		call func(*guarded)
	}{
		{0, func(g *guarded) { _, _ = g.Load(t.Context(), nil) }},
		{0, func(g *guarded) { _, _ = g.Find(t.Context(), nil) }},
		{0, func(g *guarded) { _, _ = g.Undispatched(t.Context(), 0, 1) }},
		{1, func(g *guarded) { g.Commit(t.Context(), nil, nil) }},
		{2, func(g *guarded) { _, _ = g.Claim(t.Context(), 0, 0, 1) }},
		{2, func(g *guarded) { _ = g.Release(t.Context(), nil) }},
		{2, func(g *guarded) { _, _ = g.NextDue(t.Context()) }},
		{3, func(g *guarded) { g.Apply(t.Context(), nil) }},
	}
	for answer, failure := range map[error]bool{
		nil: false, errDown: true, engine.ErrConflict: false, error(&notify.KnownError{}): false, engine.ErrUnknown: true,
		notify.ErrAnotherUser: false, engine.ErrOwn: false, engine.ConfigurationError("x", errDown): false,
	} {
		for i, c := range calls {
			if _, known := errors.AsType[*notify.KnownError](answer); known && c.gate != 1 {
				continue // an answer of commits only
			}
			var gates []*gate
			g := guard(func() *gate { gates = append(gates, &gate{}); return gates[len(gates)-1] }, answering{newFake(), answer})
			c.call(g)
			for j, met := range gates {
				if on := j == c.gate; met.begun != met.ended || (met.begun == 1) != on || on && (met.last != nil) != failure {
					t.Errorf("call %d that answers %v: gate %d has %+v", i, answer, j, met)
				}
			}
		}
	}
}

// Reports wait for the ledger as decisions do, and use no attempt when the wait ends
// without it.
func TestReportsWaitForTheLedger(t *testing.T) {
	w := waitingReports{newFake(), func(context.Context) (bool, error) { return true, errDown }}
	if errs := w.Apply(t.Context(), make([]notify.Report, 2)); len(errs) != 2 || !errors.Is(errs[1], engine.ErrAway) || !errors.Is(errs[1], errDown) {
		t.Errorf("%v", errs)
	}
}
