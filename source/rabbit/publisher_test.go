package rabbit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
)

func TestEventMessageProperties(t *testing.T) {
	s := shared(t)
	s.publish(s.messages(1)...)
	d, ok, err := s.channel().Get(s.names.Queue, true)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if d.ContentType != "application/json" || d.ContentEncoding != "utf-8" || d.DeliveryMode != amqp.Persistent ||
		d.Priority != 5 || d.AppId != "keyfold" || d.MessageId != "m000000" || d.RoutingKey != "user.embedding.product_view" ||
		d.Exchange != "user_events" || !d.Timestamp.Equal(time.Date(2026, 2, 10, 14, 30, 0, 0, time.UTC)) ||
		string(d.Body) != string(body(0)) {
		t.Errorf("%+v", d)
	}
}

// An id that is longer than a property may be does not cost the connection, and
// with it everybody's messages: its digest stands for it, and the body keeps it.
func TestEventMessageWithALongID(t *testing.T) {
	s := shared(t)
	id := strings.Repeat("€", engine.MaxMessageRunes)
	text := []byte(strings.Replace(string(body(7)), "m000007", id, 1))
	event, err := engine.ParseEvent(text, time.Now())
	if err != nil || event.MessageID != id {
		t.Fatal(event, err)
	}
	s.publish(s.names.EventMessage(text, &event))
	d, ok, err := s.channel().Get(s.names.Queue, true)
	if err != nil || !ok || len(d.MessageId) != 32 || string(d.Body) != string(text) {
		t.Fatalf("%t %v %+v", ok, err, d)
	}
	original := OriginalOf(&d)
	if back, err := original.event(time.Now()); err != nil || back != event {
		t.Errorf("read back as %+v: %v", back, err)
	}
}

// Unroutable messages are errors, each where it stands, among others that are
// confirmed, also more than fit in flight and several with one id.
func TestUnroutable(t *testing.T) {
	const n = 2*maxInFlight + 100
	s := shared(t)
	messages := s.messages(n)
	for i := range messages {
		if i%3 == 0 {
			messages[i].RoutingKey, messages[i].ID = "nobody.listens", "same"
		}
	}
	p := s.publisher(quick)
	errs := p.Publish(within(t, time.Minute), messages)
	for i, err := range errs {
		if unroutable := errors.Is(err, engine.ErrUnroutable); unroutable != (i%3 == 0) || !unroutable && err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if engine.KindOf(errs[0]) != engine.Transient || !strings.Contains(errs[0].Error(), "nobody.listens") {
		t.Error(errs[0])
	}
	back := int64((n + 2) / 3)
	if p.Stats.Published.Load() != n || p.Stats.Returned.Load() != back || p.Stats.Confirmed.Load() != n-back {
		t.Errorf("published %d, returned %d, confirmed %d", p.Stats.Published.Load(), p.Stats.Returned.Load(), p.Stats.Confirmed.Load())
	}
	if left := s.depth(s.names.Queue); left != int(n-back) {
		t.Errorf("%d in the queue", left)
	}
}

func TestPublishFromManyGoroutines(t *testing.T) {
	s := shared(t)
	messages := s.messages(4000)
	p := s.publisher(quick)
	var publishing sync.WaitGroup
	for i := range 8 {
		publishing.Go(func() {
			for _, err := range p.Publish(within(t, time.Minute), messages[i*500:(i+1)*500]) {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	publishing.Wait()
	if n := s.depth(s.names.Queue); n != 4000 || p.Stats.Connects.Load() != 1 {
		t.Errorf("%d in the queue, %d connections", n, p.Stats.Connects.Load())
	}
}

func TestRefusedByAFullQueue(t *testing.T) {
	s := shared(t)
	if _, err := s.channel().QueueDeclare("full", true, false, false, false,
		amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	messages := s.messages(5)
	for i := range messages {
		messages[i].Exchange, messages[i].RoutingKey = "", "full"
	}
	p := s.publisher(quick)
	refused := 0
	for range 3 {
		for _, err := range p.Publish(within(t, time.Minute), messages) {
			if errors.Is(err, engine.ErrRefused) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
	}
	if refused == 0 || p.Stats.Nacked.Load() != int64(refused) {
		t.Errorf("%d refused, %d counted", refused, p.Stats.Nacked.Load())
	}
}

// A confirm that does not come leaves the outcome unknown, a connection that is
// gone before the write does not, and publishing goes on when it is back.
func TestPublishOverABadNetwork(t *testing.T) {
	s := shared(t)
	proxy := rabbittest.NewProxy(t, s.broker.Address())
	direct := s.dsn
	s.dsn = rabbittest.DSN(proxy.Address(), s.vhost)
	p := s.publisher(quick)
	messages := s.messages(10)
	publish := func(limit time.Duration) []error { return p.Publish(within(t, limit), messages) }
	if err := errors.Join(publish(time.Minute)...); err != nil {
		t.Fatal(err)
	}
	proxy.Freeze()
	for i, err := range publish(2 * time.Second) {
		if !errors.Is(err, engine.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("message %d without a confirm: %v", i, err)
		}
	}
	lost := make(chan []error)
	go func() { lost <- publish(time.Minute) }()
	eventually(t, "messages written", func() bool { return p.Stats.Published.Load() == 30 })
	proxy.Cut()
	for i, err := range <-lost {
		if !errors.Is(err, engine.ErrUnknown) {
			t.Errorf("message %d with the connection lost: %v", i, err)
		}
	}
	proxy.Thaw()
	eventually(t, "publishing again", func() bool { return errors.Join(publish(time.Minute)...) == nil })
	s.dsn = direct
	if n := s.depth(s.names.Queue); n < 20 || n > 40 {
		t.Errorf("%d in the queue", n)
	}
}

// An alarm stops the publisher, with an error that says so, and not the
// consumer; when it is over, publishing goes on by itself.
func TestAlarm(t *testing.T) {
	t.Parallel()
	s := newSite(t, rabbittest.Start(t))
	s.publish(s.messages(1000)...)
	p := s.publisher(quick)
	extra := s.messages(1)
	if err := errors.Join(p.Publish(within(t, time.Minute), extra)...); err != nil {
		t.Fatal(err)
	}
	s.broker.Alarm(t, true)
	// The broker tells a connection when it publishes, once the alarm has reached it; these
	// messages may be anything.
	eventually(t, "the alarm told", func() bool {
		_ = p.Publish(within(t, 200*time.Millisecond), extra)
		return p.Stats.Blocked.Load() == 1
	})
	err := errors.Join(p.Publish(within(t, 200*time.Millisecond), extra)...)
	if err == nil || errors.Is(err, engine.ErrUnknown) || engine.KindOf(err) != engine.Transient ||
		!strings.Contains(err.Error(), "alarm") || !strings.Contains(err.Error(), "memory") {
		t.Errorf("publishing during an alarm: %v", err)
	}
	r := s.run(s.config(), settleAtOnce)
	eventually(t, "consuming during the alarm", func() bool { return r.Stats.Acked.Load() >= 1000 })

	waiting := make(chan []error)
	go func() { waiting <- p.Publish(within(t, time.Minute), extra) }()
	time.Sleep(50 * time.Millisecond)
	s.broker.Alarm(t, false)
	if err := errors.Join(<-waiting...); err != nil {
		t.Errorf("after the alarm: %v", err)
	}
	if p.Stats.Blocked.Load() != 0 || p.Stats.Connects.Load() != 1 {
		t.Errorf("blocked %d, connects %d", p.Stats.Blocked.Load(), p.Stats.Connects.Load())
	}
}

func TestPublisherBacksOff(t *testing.T) {
	p := NewPublisher("amqp://guest:guest@127.0.0.1:1/", ThisProcess("test"), "publisher",
		Timing{BackoffMin: time.Hour, BackoffMax: time.Hour}, quiet)
	m := []Message{{ID: "a"}, {ID: "b"}}
	for i, err := range p.Publish(t.Context(), m) {
		if err == nil || engine.KindOf(err) != engine.Transient {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if err := errors.Join(p.Publish(within(t, 20*time.Millisecond), m)...); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no wait before the next attempt: %v", err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(p.Publish(t.Context(), m)...); !errors.Is(err, errPublisherClosed) {
		t.Error(err)
	}
}
