package rabbit

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
)

// A delivery that has no verdict within its lease ends the session: the broker
// delivers it again, with everything else that was open. What was settled by then
// does not come again.
func TestOverdueDeliveryEndsTheSession(t *testing.T) {
	s := shared(t)
	s.publish(s.messages(20)...)
	var in inbox
	config := s.config()
	config.Lease = 500 * time.Millisecond
	r := s.run(config, in.deliver)
	eventually(t, "delivered", func() bool { return in.len() == 20 })
	first := in.take()
	for _, d := range first[:5] {
		d.Settler.Settle(folded)
	}
	eventually(t, "delivered again", func() bool { return in.len() == 15 })
	again := in.take()
	for _, d := range again {
		for _, settled := range first[:5] {
			if d.Event.MessageID == settled.Event.MessageID {
				t.Errorf("%s came again, though it was settled", d.Event.MessageID)
			}
		}
		d.Settler.Settle(folded)
	}
	if n := r.Stats.Overdue.Load(); n < 1 {
		t.Errorf("%d sessions were overdue, want at least 1", n)
	}
	if err := r.end(ample); err != nil {
		t.Error(err)
	}
	if n := s.depth(s.names.Queue); n != 0 {
		t.Errorf("%d left", n)
	}
}

// What waits in process for its next attempt has no lease; it has one again when
// it is delivered, with the bound of a copy.
func TestWaitingInProcessHasNoLease(t *testing.T) {
	w := newWaiting(t, sharedBroker(t), 2*time.Second)
	w.publish(w.messages(1)...)
	config := w.config()
	config.Lease = 700 * time.Millisecond
	var deliveries atomic.Int64
	var late atomic.Bool
	r := w.runWith(InProcess{}, config, func(_ context.Context, all []engine.Delivery) error {
		for i := range all {
			d := &all[i]
			if d.Age(time.Now()) > config.Lease {
				late.Store(true)
			}
			if deliveries.Add(1) == 1 {
				d.Settler.Settle(engine.Verdict{Outcome: engine.Retry, Err: engine.ErrUnknown, AbsentAt: 4711})
				continue
			}
			if d.FirstSeen != 4711 {
				t.Errorf("first seen %d, want what the verdict said", d.FirstSeen)
			}
			d.Settler.Settle(folded)
		}
		return nil
	})
	eventually(t, "settled", func() bool { return r.Stats.Acked.Load() == 1 })
	if n := deliveries.Load(); n != 2 || r.Stats.Overdue.Load() != 0 || late.Load() {
		t.Errorf("%d deliveries, %d sessions overdue, delivered late: %v", n, r.Stats.Overdue.Load(), late.Load())
	}
	if err := r.end(ample); err != nil {
		t.Error(err)
	}
}

func TestLeasesForgetWhatHasEnded(t *testing.T) {
	var all leases
	var running []*lease
	for i := range 100_000 {
		l := all.begin()
		if i%1000 == 0 {
			running = append(running, l)
		} else {
			l.end()
		}
	}
	if n := len(all.all); n > 2*max(fewLeases, len(running)) {
		t.Errorf("%d leases are kept for %d that run", n, len(running))
	}
	if all.oldest() == 0 {
		t.Error("a lease that runs is not found")
	}
	for _, l := range running {
		l.end()
	}
	if all.oldest() != 0 {
		t.Error("a lease that has ended is found")
	}
}

// An event that waited in process for its next attempt has a lease again, however
// many deliveries came and went meanwhile.
func TestALeaseThatBeginsAnewIsWatched(t *testing.T) {
	s := shared(t)
	s.publish(s.messages(3 * fewLeases)...)
	config := s.config()
	config.Lease, config.RetryDelay, config.Prefetch = 3*time.Second, 2*time.Second, 8
	var attempts atomic.Int64
	id := event(t, body(0)).MessageID
	r := s.runWith(InProcess{}, config, func(_ context.Context, all []engine.Delivery) error {
		for i := range all {
			d := &all[i]
			switch {
			case d.Event.MessageID != id:
				d.Settler.Settle(folded)
			case attempts.Add(1) == 1:
				d.Settler.Settle(engine.Verdict{Outcome: engine.Retry, Err: engine.ErrUnknown, AbsentAt: 1})
			case attempts.Load() > 2:
				d.Settler.Settle(folded)
			} // the second one is left open
		}
		return nil
	})
	eventually(t, "it is delivered by the broker again", func() bool { return attempts.Load() == 3 })
	if n := r.Stats.Overdue.Load(); n != 1 {
		t.Errorf("%d sessions were ended, want 1", n)
	}
	if err := r.end(ample); err != nil {
		t.Error(err)
	}
}

// A malformed message waits for its letter for as long as that takes: it is never
// folded, and ends no session.
func TestAnUnstoredLetterEndsNoSession(t *testing.T) {
	s := shared(t)
	s.broker.DeleteQueue(t, s.vhost, s.names.DeadLetters)
	s.publish(Message{Exchange: s.names.Exchange, RoutingKey: "user.embedding.search", ID: "bad", Body: []byte("bad")})
	config := s.config()
	config.Lease = 200 * time.Millisecond
	r := s.run(config, settleAtOnce)
	eventually(t, "delivered", func() bool { return r.Stats.Malformed.Load() == 1 })
	time.Sleep(5 * config.Lease)
	if n := r.Stats.Overdue.Load(); n != 0 {
		t.Errorf("%d sessions were ended for it", n)
	}
	s.setup()
	s.letters(1)
}
