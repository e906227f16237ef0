package consume

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// A delivery that has no verdict within its lease ends the session: the broker
// delivers it again, with everything else that was open. What was settled by then
// does not come again.
//
// Promise(redelivery/overdue): A session in which nothing is settled in time ends after the lease, and
// the broker delivers its events again.
func TestOverdueDeliveryEndsTheSession(t *testing.T) {
	const n, settled = 20, 5
	s := shared(t)
	s.Publish(s.Messages(n)...)
	config := s.config()
	config.Lease = 5 * time.Second // a busy machine settles some of them meanwhile
	var mu sync.Mutex
	times := map[string]int{}
	r := s.run(config, func(_ context.Context, all []profile.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		for _, d := range all {
			id := d.Event.MessageID
			if times[id]++; times[id] > 1 || id < sitetest.Event(t, sitetest.Body(settled)).MessageID {
				d.Settler.Settle(folded)
			}
		}
		return nil
	})
	sitetest.Eventually(t, "all acknowledged", func() bool { return r.Stats.Acked.Load() == n })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	for i := range n {
		id, want := sitetest.Event(t, sitetest.Body(i)).MessageID, 1
		if i >= settled {
			want = 2
		}
		if times[id] != want {
			t.Errorf("%s came %d times, want %d", id, times[id], want)
		}
	}
	if overdue, left := r.Stats.Overdue.Load(), s.Depth(s.Names.Queue); overdue < 1 || left != 0 {
		t.Errorf("%d sessions were overdue, want at least 1; %d messages are left", overdue, left)
	}
}

// handed keeps in process what is to be tried again, until the test calls again.
type handed chan *settler

func (h handed) park(t *settler, _ time.Duration) {
	InProcess{}.park(t, time.Hour)
	h <- t
}

// What waits in process for its next attempt has no lease; it has one again when
// it is delivered, with the bound of a copy.
func TestWaitingInProcessHasNoLease(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(1)...)
	parked, come := make(handed, 1), make(chan profile.Delivery, 1)
	r := s.runWith(parked, s.config(), func(_ context.Context, all []profile.Delivery) error {
		for _, d := range all {
			come <- d
		}
		return nil
	})
	first := <-come
	first.Settler.Settle(engine.Verdict{Outcome: engine.Retry, Err: engine.ErrUnknown, AbsentAt: 4711})
	waiting := <-parked
	leases := &waiting.channel.leases
	if leases.oldest() != 0 {
		t.Error("what waits has a lease")
	}
	waiting.again()
	again := <-come
	if leases.oldest() == 0 || !again.Arrived.After(first.Arrived) || again.FirstSeen != 4711 {
		t.Errorf("the lease has not begun anew: %+v, first %+v", again, first)
	}
	again.Settler.Settle(folded)
	sitetest.Eventually(t, "settled", func() bool { return r.Stats.Acked.Load() == 1 })
	if err := r.end(sitetest.Ample); err != nil {
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
//
// Promise(redelivery/waits-in-process)
func TestALeaseThatBeginsAnewIsWatched(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(3 * fewLeases)...)
	config := s.config()
	config.Lease, config.RetryDelay, config.Prefetch = 3*time.Second, 2*time.Second, 8
	var attempts atomic.Int64
	id := sitetest.Event(t, sitetest.Body(0)).MessageID
	r := s.runWith(InProcess{}, config, func(_ context.Context, all []profile.Delivery) error {
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
	sitetest.Eventually(t, "it is delivered by the broker again", func() bool { return attempts.Load() == 3 })
	if n := r.Stats.Overdue.Load(); n != 1 {
		t.Errorf("%d sessions were ended, want 1", n)
	}
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
}

// A malformed message waits for its letter for as long as that takes: it is never
// folded, and ends no session.
//
// Promise(redelivery/waits-in-process): No session ends for an unstored letter or for an event that
// waits in process; its next attempt has a lease of its own.
func TestAnUnstoredLetterEndsNoSession(t *testing.T) {
	s := shared(t)
	s.Broker.DeleteQueue(t, s.VHost, s.Names.DeadLetters)
	s.Publish(rabbit.Message{Exchange: s.Names.Exchange, RoutingKey: "user.embedding.search", ID: "bad", Body: []byte("bad")})
	config := s.config()
	config.Lease = 200 * time.Millisecond
	r := s.run(config, settleAtOnce)
	sitetest.Eventually(t, "delivered", func() bool { return r.Stats.Malformed.Load() == 1 })
	time.Sleep(5 * config.Lease)
	if n := r.Stats.Overdue.Load(); n != 0 {
		t.Errorf("%d sessions were ended for it", n)
	}
	s.setup()
	s.letters(1)
}
