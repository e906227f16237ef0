package broker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/rabbit/topology"
)

// notifier settles events by their titles, and counts how often each came.
type notifier struct {
	mu    sync.Mutex
	times map[string]int
}

func (n *notifier) deliver(_ context.Context, all []processor.Delivery) error {
	for _, d := range all {
		n.mu.Lock()
		n.times[d.Event.ID.String()]++
		first := n.times[d.Event.ID.String()] == 1
		n.mu.Unlock()
		v := processor.Verdict{Outcome: processor.Decided}
		switch {
		case d.Event.Type == notify.Alert:
			v = processor.Verdict{Outcome: processor.Dead, Err: notify.ErrAnotherUser}
		case d.Event.Type == notify.System && first:
			v = processor.Verdict{Outcome: processor.Park, Err: engine.ErrAway}
		case d.Event.Type == notify.Message:
			v = processor.Verdict{Outcome: processor.Retry, Err: errors.New("503")}
		case d.Event.Type == notify.Security:
			v = processor.Verdict{Outcome: processor.Known}
		}
		d.Settler.Settle(v)
	}
	return nil
}

// Events come as they were published, and what was decided of them settles their
// messages.
//
// Promise(dispatch/letters): An event that cannot be read or is given up is a dead letter with the
// reason; `notify failed` finds it and replays it.
func TestEventsAreSettled(t *testing.T) {
	s := newSite(t, topology.Quorum)
	who := rabbit.ThisProcess("test")
	delays := consume.NewDelayQueues(s.dsn, Urgent(), who, rabbit.Timing{}, quiet)
	consumer, err := consume.New(consume.Config{
		DSN: s.dsn, Names: Urgent(), Identity: who, QueueType: topology.Quorum, Describe: Describe,
		Prefetch: 100, MaxRetries: 1, RetryDelay: 20 * time.Millisecond,
	}, consume.Ports{
		DeadLetters: deadletter.Queue{Publisher: s.publisher, Names: Urgent(), Describe: Describe}, Retries: delays, Log: quiet,
	})
	must.OK(t, err)
	n := &notifier{times: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- consumer.Run(ctx, Events(n.deliver, engine.Now)) }()

	known, dead, parked, spent := event(t, 1, notify.Security, ""), event(t, 2, notify.Alert, ""), event(t, 3, notify.System, ""), event(t, 4, notify.Message, "")
	bad := rabbit.Message{Exchange: EventsExchange, RoutingKey: eventKey(notify.Alert), Body: []byte(`{"event_id":"bad","user_id":"anna","event_type":"ALERT"}`)}
	s.publish(t, EventMessage(known), EventMessage(dead), EventMessage(parked), EventMessage(spent), bad)
	must.Hold(t, "all are settled", func() bool { return consumer.Stats.Acked.Load() == 7 }) // two of them twice

	scan, err := deadletter.Open(t.Context(), s.dsn, Bulk()) // both queues have the same
	must.OK(t, err)
	scan.Describe = Describe
	reasons := map[string]string{}
	for l, err := range scan.Letters(t.Context()) {
		must.OK(t, err)
		reasons[l.ID] = l.Reason
		if l.Kind == "" || l.User == "" || l.Original == nil {
			t.Errorf("%+v", l)
		}
	}
	want := map[string]string{dead.ID.String(): notify.ReasonAnotherUser, spent.ID.String(): engine.ReasonRetriesExhausted, "bad": ""}
	for id, reason := range want {
		if got, ok := reasons[id]; !ok || reason != "" && got != reason {
			t.Errorf("%s: %q, want %q", id, got, reason)
		}
	}
	if len(reasons) != len(want) || n.times[parked.ID.String()] != 2 || n.times[spent.ID.String()] != 2 || n.times[known.ID.String()] != 1 {
		t.Errorf("%v; %v", reasons, n.times)
	}
	stop()
	closing, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(<-ran, consumer.Close(closing), delays.Close(closing), scan.Close()); err != nil {
		t.Error(err)
	}
}

// Each outcome of a delivery settles its message, and a dead one says why.
func TestSettlements(t *testing.T) {
	for outcome, want := range map[processor.Outcome]engine.Settlement{
		processor.Decided: engine.Ack, processor.Known: engine.Ack, processor.Dead: engine.DeadLetter,
		processor.Retry: engine.RetryLater, processor.Park: engine.ParkLater, processor.Unsettled: engine.Leave,
	} {
		var got engine.Verdict
		settler{settlerFunc(func(v engine.Verdict) { got = v })}.Settle(processor.Verdict{Outcome: outcome, Err: notify.ErrAnotherUser})
		if got.Outcome.Settlement() != want || !errors.Is(got.Err, notify.ErrAnotherUser) || (got.Reason != "") != (outcome == processor.Dead) {
			t.Errorf("%s: %+v", outcome, got)
		}
	}
	for o := processor.Outcome(1); o.String() != ""; o++ {
		if settlements[o] == 0 {
			t.Errorf("%s has no settlement", o)
		}
	}
}

type settlerFunc func(engine.Verdict)

func (f settlerFunc) Settle(v engine.Verdict) { f(v) }

// What is published is what is parsed again, under the same id.
func TestEventMessageRoundTrip(t *testing.T) {
	for number, kind := range notify.EventTypes {
		e := event(t, number, kind, `,"metadata":{"order_id":7}`)
		m := EventMessage(e)
		again, err := notify.Parse(m.Body, engine.Now())
		if err != nil || again.ID != e.ID || string(again.Body) != string(e.Body) || m.ID != e.ID.String() || !strings.HasSuffix(m.RoutingKey, kind.String()) {
			t.Errorf("%+v: %v", m, err)
		}
		s := Describe(&rabbit.Original{Message: m})
		if s.ID != m.ID || s.User != e.UserID || s.Kind != kind.String() || s.NumericUser {
			t.Errorf("%+v", s)
		}
	}
}

// Describe takes anything.
func TestDescribeNeverFails(t *testing.T) {
	value := rapid.SampledFrom([]string{`"a"`, `""`, "1", "null", "{}", "[]"})
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Custom(func(t *rapid.T) []byte {
			return []byte(`{"event_id":` + value.Draw(t, "id") + `,"user_id":` + value.Draw(t, "user") + `,"event_type":` + value.Draw(t, "type") + `}`)
		})).Draw(t, "body")
		if s := Describe(&rabbit.Original{Message: rabbit.Message{Body: body}}); len(s.ID) > len(body) || len(s.User) > len(body) {
			t.Fatalf("%+v", s)
		}
	})
	report := &rabbit.Original{Message: rabbit.Message{Body: []byte(`{"decision_id":"d","status":"DELIVERED"}`)}}
	if s := Describe(report); s.ID != "d" || s.Kind != "DELIVERED" {
		t.Errorf("%+v", s)
	}
}
