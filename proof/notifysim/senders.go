package notifysim

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"keyfold/proof/notifyoracle"
	"keyfold/proof/schedule"

	"keyfold/engine/notify"
)

// senders are who dispatches are handed over to. The simulation's mu guards them.
type senders struct {
	*simulation
	sent  []notifyoracle.Sent
	times []time.Duration // aligned with it

	reporting int                           // reports that are not applied
	over      bool                          // no notifier will take reports any more
	greatest  map[uuid.UUID]notify.Delivery // what the reports come to, by dispatch
	said      map[uuid.UUID]notify.Reported // all that was reported, by dispatch
}

// sender is a life's way to the senders.
type sender struct{ *life }

var (
	errNoDispatch = errors.New("sim: the dispatch is refused")
	errNoConfirm  = errors.New("sim: the dispatch is not confirmed")
)

// Send implements [notify.Dispatcher].
func (k *sender) Send(ctx context.Context, all []notify.Dispatch) []error {
	errs := make([]error, len(all))
	fail := func(err error) []error {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	at := k.clock()
	if k.lateClocks {
		at += 5 * second
	}
	d := k.rng("send", k.number, keyOf(all[0].ID), schedule.InstantOf(time.Now()))
	switch {
	case k.dead.Load():
		return fail(errDead)
	case pause(ctx, d.Latency(3*time.Millisecond, 2*time.Second)) != nil:
		return fail(context.Cause(ctx))
	}
	k.mu.Lock()
	confirmed := false
	for i := range all {
		refused := time.Now().Before(k.broker.down) && !k.quiet() || !k.quiet() && d.Chance(k.plan.rates.dispatch)
		if refused {
			errs[i] = errNoDispatch
			continue
		}
		sent := notifyoracle.Sent{ID: all[i].ID, At: at}
		for _, e := range all[i].Events {
			sent.Events = append(sent.Events, e.ID)
		}
		k.senders.sent = append(k.senders.sent, sent)
		k.senders.times = append(k.senders.times, time.Since(k.Began))
		k.senders.report(&all[i], at)
		k.Note("senders", "dispatch", int64(k.number), int64(keyOf(all[i].ID)), int64(len(sent.Events)))
		if !k.quiet() && d.Chance(k.plan.rates.confirm) {
			errs[i] = errNoConfirm
			continue
		}
		confirmed = true
	}
	k.mu.Unlock()
	switch {
	case pause(ctx, d.Latency(3*time.Millisecond, 2*time.Second)) != nil:
		return fail(context.Cause(ctx))
	case k.dead.Load():
		return fail(errDead)
	case confirmed:
		k.pass(dispatched)
	}
	return errs
}

// first returns the events of the first dispatch of each id: senders drop the others.
func (s *senders) first() map[uuid.UUID][]uuid.UUID {
	first := map[uuid.UUID][]uuid.UUID{}
	for _, sent := range s.sent {
		if _, met := first[sent.ID]; !met {
			first[sent.ID] = sent.Events
		}
	}
	return first
}
