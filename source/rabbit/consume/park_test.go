package consume

import (
	"bytes"
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

func parkOf(err error) engine.Verdict { return engine.Verdict{Outcome: engine.Park, Err: err} }

// A parked event waits in a delay queue, as a retried one, with no attempt used.
func TestParkUsesNoAttempt(t *testing.T) {
	w := newWaiting(t, sitetest.Broker(t), time.Minute)
	w.Publish(w.Messages(1)...)
	d := w.retries(w.DSN, sitetest.Quiet)
	r := w.runWith(d, w.config(), func(_ context.Context, deliveries []profile.Delivery) error {
		for _, each := range deliveries {
			each.Settler.Settle(parkOf(engine.ErrAway))
		}
		return nil
	})
	sitetest.Eventually(t, "the original acknowledged", func() bool { return r.Stats.Acked.Load() == 1 })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	back, ok, err := w.Channel().Get(w.queue(0), true)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if back.Headers[rabbit.HeaderAttempts] != int64(0) || back.Headers[rabbit.HeaderFirstSeen].(int64) == 0 {
		t.Errorf("headers %v", back.Headers)
	}
	if r.Stats.Parked.Load() != 1 || r.Stats.Retried.Load() != 0 {
		t.Errorf("%d parked, %d retried", r.Stats.Parked.Load(), r.Stats.Retried.Load())
	}
}

// Copies of one event that are parked together come back as one, with the latest
// bound. Another event under the same id stays another message.
//
// Promise(redelivery/parked-copy)
func TestCopiesParkedTogetherAreOne(t *testing.T) {
	w := newWaiting(t, sitetest.Broker(t), time.Minute)
	m := w.Messages(2)
	bound := func(at engine.Millis) rabbit.Message {
		copied := m[0]
		copied.Headers = amqp.Table{rabbit.HeaderFirstSeen: int64(at)}
		return copied
	}
	latest := engine.Now() - 1000
	other := m[0]
	other.Body = bytes.Replace(m[0].Body, []byte(`"product_view"`), []byte(`"product_click"`), 1)
	w.Publish(bound(latest-2), m[1], bound(latest), bound(latest-1), other)
	d := w.retries(w.DSN, sitetest.Quiet)
	q := d.newQueue(wait{delay: time.Minute})
	d.queues[q.wait] = q // it publishes once all of them wait
	r := w.runWith(d, w.config(), func(_ context.Context, deliveries []profile.Delivery) error {
		for _, each := range deliveries {
			each.Settler.Settle(parkOf(engine.ErrAway))
		}
		return nil
	})
	sitetest.Eventually(t, "all parked", func() bool { return d.Stats.Waiting.Load() == 5 })
	d.work.Go(func() { q.copies.run(d.life) })
	sitetest.Eventually(t, "the originals acknowledged", func() bool { return r.Stats.Acked.Load() == 5 })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	if n := w.Depth(w.queue(0)); n != 3 {
		t.Errorf("%d copies wait, want one of each event", n)
	}
	q.copies.mu.Lock()
	if q.copies.waiting != nil {
		t.Error("what was sent is kept")
	}
	q.copies.mu.Unlock()
	first, ok, err := w.Channel().Get(w.queue(0), true)
	if err != nil || !ok || first.Headers[rabbit.HeaderFirstSeen] != int64(latest) {
		t.Errorf("%v, %v: bound %v, want %d", ok, err, first.Headers, latest)
	}
}

// However often it was parked, an event has all its attempts left; and after a
// day it is given up, with the reason.
//
// Promise(away/embedding-breaker)
func TestParkedTooLong(t *testing.T) {
	w := newWaiting(t, sitetest.Broker(t), 50*time.Millisecond)
	m := w.Messages(2)
	long := rabbit.Failure{At: engine.Now() - engine.Millis(MaxParked.Milliseconds()) - 1, Err: engine.ErrAway}
	m[1].Headers = amqp.Table{rabbit.HeaderFirstSeen: int64(engine.Now()), rabbit.HeaderErrors: rabbit.EncodeFailures([]rabbit.Failure{long})}
	w.Publish(m...)
	d := w.retries(w.DSN, sitetest.Quiet)
	parks := 0
	r := w.runWith(d, w.config(), func(_ context.Context, deliveries []profile.Delivery) error {
		for _, each := range deliveries {
			if parks++; parks <= 20 {
				each.Settler.Settle(parkOf(engine.ErrAway))
			} else {
				each.Settler.Settle(folded)
			}
		}
		return nil
	})
	sitetest.Eventually(t, "both settled", func() bool { return w.Depth(w.Names.DeadLetters) == 1 && r.Stats.Acked.Load() == 21 })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	for id, letter := range w.letters(1) {
		if letter.Headers[rabbit.HeaderReason] != ReasonParkedTooLong {
			t.Errorf("%s: %v", id, letter.Headers)
		}
	}
	if n := r.Stats.Retried.Load(); n != 0 {
		t.Errorf("%d attempts used", n)
	}
}

// What is held goes back while consuming is paused, and comes again afterwards.
func TestGiveBack(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(8)...)
	var in inbox
	r := s.run(s.config(), in.deliver)
	sitetest.Eventually(t, "delivered", func() bool { return in.len() == 8 })
	first := in.take()
	r.Pause()
	r.GiveBack()
	sitetest.Eventually(t, "the broker has them again", func() bool { return s.Depth(s.Names.Queue) == 8 })
	for _, d := range first {
		d.Settler.Settle(folded) // of a session that has ended
	}
	time.Sleep(200 * time.Millisecond)
	if in.len() != 0 || s.Depth(s.Names.Queue) != 8 || r.Stats.Acked.Load() != 0 {
		t.Fatalf("%d delivered in the pause, %d wait, %d acknowledged", in.len(), s.Depth(s.Names.Queue), r.Stats.Acked.Load())
	}
	r.Resume()
	sitetest.Eventually(t, "delivered again", func() bool { return in.len() == 8 })
	for _, d := range in.take() {
		d.Settler.Settle(folded)
	}
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	if n := s.Depth(s.Names.Queue); n != 0 {
		t.Errorf("%d left", n)
	}
}
