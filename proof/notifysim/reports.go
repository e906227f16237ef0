package notifysim

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
	"keyfold/proof/schedule"
	amqp "keyfold/service/notify/broker"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

// report sends what the senders say of a dispatch: a failure, a delivery or what the user did,
// both in any order, or nothing, some of it twice. s.mu is held.
func (s *senders) report(dispatch *notify.Dispatch, at engine.Millis) {
	if s.over {
		return
	}
	d := s.rng("report", keyOf(dispatch.ID))
	for _, status := range []notify.Status{notify.DeliveryFailed, notify.Delivered} {
		if !d.Chance(500) {
			continue
		}
		r := notify.Report{Event: dispatch.ID, Status: status, At: at - engine.Millis(d.N(1000))}
		if status == notify.Delivered {
			r.Channel = dispatch.Records[0].Channels[0]
			r.Read = []notify.Reported{0, 0, notify.WasOpened, notify.WasClicked, notify.WasDismissed}[d.N(5)]
			s.said[r.Event] |= notify.WasDelivered | r.Read
		}
		known, ok := s.greatest[r.Event]
		if !ok {
			known.Status = notify.Pending
		}
		known.Take(&r)
		s.greatest[r.Event] = known
		for again := 1000; d.Chance(again); again = 100 {
			s.reporting++
			time.AfterFunc(d.Latency(2*time.Second, time.Minute), func() { s.deliver(r) })
		}
	}
}

// deliver hands a report to a notifier, until one has settled it.
func (s *senders) deliver(r notify.Report) {
	d := s.rng("deliver report", keyOf(r.Event), schedule.InstantOf(time.Now()))
	again := d.Between(20*time.Second, 30*time.Second)
	s.mu.Lock()
	k := s.lives[d.N(len(s.lives))]
	s.mu.Unlock()
	if k == nil {
		time.AfterFunc(again, func() { s.deliver(r) })
		return
	}
	body, err := json.Marshal(map[string]any{
		"event_id": r.Event, "status": statusName(r), "at": instantText(r.At), "channel": channelName(r.Channel),
	})
	if err != nil {
		panic(err)
	}
	chunk := amqp.Reports(&reporter{k}, k.clock, func(error) {})()
	settled := settlerFunc(func(v engine.Verdict) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case !k.dead.Load() && v.Outcome == engine.Decided:
			s.reporting--
			return
		case !k.dead.Load() && v.Outcome == engine.Dead && !s.erasedEvent(r.Event):
			s.fault("the report of %v is a dead letter: %w", r.Event, v.Err)
			fallthrough
		case !k.dead.Load() && v.Outcome == engine.Dead:
			s.reporting--
			return
		}
		time.AfterFunc(again, func() { s.deliver(r) })
	})
	if err := chunk.Add(&rabbit.Original{Message: rabbit.Message{Body: body}}, consume.Arrival{Settler: settled}); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fault("report %s: %w", body, err)
		s.reporting--
		return
	}
	_ = chunk.HandOver(k.ctx) // each report is settled
}

// statusName is the status as a sender reports it.
func statusName(r notify.Report) string {
	if name := map[notify.Reported]string{notify.WasOpened: "OPENED", notify.WasClicked: "CLICKED", notify.WasDismissed: "DISMISSED"}[r.Read]; name != "" {
		return name
	}
	return r.Status.String()
}

func channelName(c notify.Channel) any {
	if c == 0 {
		return nil
	}
	return c.String()
}

// erasedEvent reports whether an id is of an event, or of a digest, of an erased user.
func (s *senders) erasedEvent(id uuid.UUID) bool {
	for i := range s.store.log {
		if r := &s.store.log[i]; r.EventID == id || r.DigestID == id {
			_, gone := s.erased[r.UserID]
			return gone
		}
	}
	return false
}

type settlerFunc func(engine.Verdict)

func (f settlerFunc) Settle(v engine.Verdict) { f(v) }

// reporter is a life's way to the ledger for reports.
type reporter struct{ *life }

// Apply implements [notify.Reports].
func (k *reporter) Apply(ctx context.Context, reports []notify.Report) []error {
	c := &client{k.life, k.store}
	answers, err := ask(ctx, c, "report", keyOf(reports[0].Event), func(ctx context.Context) ([]error, error) {
		return c.store.Apply(ctx, reports), nil
	})
	if err != nil {
		answers = make([]error, len(reports))
		for i := range answers {
			answers[i] = err
		}
		return answers
	}
	k.pass(failpoint.ReportApplied)
	return answers
}
