package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/rounds"
)

// flush is one call of Apply: several users' works that share round trips.
type flush struct {
	*Processor
	ctx   context.Context //nolint:containedctx // a flush lives as long as its call
	set   *notify.Set     // a flush ends with the set with which it began
	now   engine.Millis
	works []*work
	// scores are the taste terms that were asked for.
	scores map[*notify.Notification]notify.Score
}

// work is one user's deliveries on their way through a flush.
type work struct {
	user       string
	deliveries []Delivery // not settled yet, in the order of their decisions

	loaded   bool
	met      bool // loaded before: what was made of it was refused
	asked    bool // anew, because the ledger said that an event is another user's
	standing notify.Standing
	known    map[uuid.UUID]notify.Known    // keys that are stored, by event
	reported map[uuid.UUID]notify.Reported // of the steps before follow-ups, by event

	// What the plan of this round came to. See plan.go.
	state   notify.State
	version int64
	change  notify.Change
	would   []notify.Record // by the candidate, aligned with change.Decided; nil: there is none
	tracks  bool            // waiting is kept
	waiting []notify.Due    // of a replay, and where a delivery ends others: the user's deferrals
	answers []answer        // aligned with deliveries

	done bool
}

// run takes the works through the rounds until each is done. A round repeats for
// users whose version moved (at most Conflicts times) and for calls that failed (at
// most Failures times in a row).
func (f *flush) run() {
	end, err := f.policy.Run(f.ctx, rounds.Work{
		Wait: f.await,
		Round: func() (left bool, err error) {
			err = f.round()
			f.works = slices.DeleteFunc(f.works, func(w *work) bool { return w.done })
			if len(f.works) > 0 && err != nil && f.ctx.Err() == nil {
				f.stats.Failures.Add(1)
			}
			return len(f.works) > 0, err
		},
		Failing: f.logLedger,
	})
	switch end {
	case rounds.Done:
	case rounds.Conflicting:
		f.finishAll(Verdict{Outcome: Retry, Err: err})
	case rounds.Stopped:
		f.finishAll(Verdict{Outcome: Unsettled, Err: fmt.Errorf("stopped before the decision: %w", err)})
	case rounds.Away, rounds.Failing:
		f.finishAll(f.leave(err))
	}
}

// errLeft: the wait for the ledger ended without it.
var errLeft = errors.New("not decided")

// await waits until the ledger may be asked. After a wait the flush reads its clock
// again: what expired meanwhile is decided as expired.
func (f *flush) await() (waited bool, err error) {
	if waited, err = f.ports.WaitForLedger(f.ctx); err != nil {
		return waited, fmt.Errorf("%w: %w", errLeft, err)
	}
	if waited {
		f.now = f.ports.Clock()
		for _, w := range f.works {
			for i := range w.deliveries {
				if d := &w.deliveries[i]; d.live {
					d.At = f.now
				}
			}
		}
	}
	return waited, nil
}

// leave returns the verdict on deliveries that the ledger's error leaves undecided.
func (f *flush) leave(err error) Verdict {
	switch {
	case engine.KindOf(err) == engine.Configuration:
		f.ports.OnConfigError(err)
		return Verdict{Outcome: Unsettled, Err: err}
	case errors.Is(err, errLeft), f.ctx.Err() != nil:
		return Verdict{Outcome: Unsettled, Err: err}
	case errors.Is(err, engine.ErrAway), errors.Is(err, engine.ErrOwn): // the event is not to blame
		return Verdict{Outcome: Park, Err: err}
	default:
		return Verdict{Outcome: Retry, Err: err}
	}
}

// round takes the works through all steps once. It returns the ledger's error if
// there was one.
func (f *flush) round() error {
	if err := f.load(); err != nil {
		return err
	}
	var again []resend
	for _, w := range f.works {
		again = append(again, f.settleKnown(w)...)
	}
	sends, err := f.lookup(again)
	if err != nil {
		f.keep(again)
		return err
	}
	f.plan()
	committed, err := f.commit()
	for _, w := range committed {
		sends = append(sends, w.sends()...)
	}
	_, failed := f.dispatch(f.ctx, sends)
	for i := range again {
		f.settleAgain(&again[i], failed)
	}
	for _, w := range committed {
		f.settleDecided(w, failed)
	}
	return err
}

// keep leaves deliveries that are known to the next round.
func (f *flush) keep(again []resend) {
	for i := range again {
		w := again[i].work
		w.deliveries = append(w.deliveries, again[i].delivery)
	}
}

func (f *flush) finishAll(v Verdict) {
	for _, w := range f.works {
		f.finish(w, v)
	}
	f.works = nil
}

// finish settles what is left of a work alike.
func (f *flush) finish(w *work, v Verdict) {
	for i := range w.deliveries {
		f.settle(w, &w.deliveries[i], v)
	}
	w.deliveries, w.done = nil, true
}
