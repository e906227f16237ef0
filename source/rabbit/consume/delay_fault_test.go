package consume

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
)

// The connection dies when the broker has the copy and its confirm is on the
// way: the original stays unacknowledged until a second copy is confirmed.
//
// Promise(rabbitmq/confirm-timeout)
func TestCopyOfUnknownFate(t *testing.T) {
	w := newWaiting(t, sitetest.Broker(t), time.Minute)
	p := rabbittest.NewProxy(t, w.Broker.Address())
	d := w.retries(rabbittest.DSN(p.Address(), w.VHost), sitetest.Quiet)
	all := w.Messages(2)
	w.Publish(all[0])
	r := w.runWith(d, w.config(), failFirst(1).deliver)
	sitetest.Eventually(t, "a first copy, over a connection that is now open", func() bool { return r.Stats.Acked.Load() == 1 })

	p.Delay(3 * time.Second)
	w.Publish(all[1])
	sitetest.Eventually(t, "the second copy at the broker", func() bool { return w.Depth(w.queue(0)) == 2 })
	if r.Stats.Acked.Load() != 1 || r.Stats.Unacked.Load() != 1 {
		t.Error("acknowledged before the confirm")
	}
	p.Cut()
	p.Delay(0)
	sitetest.Eventually(t, "a copy of the copy, confirmed", func() bool { return r.Stats.Acked.Load() == 2 })
	if n := w.Depth(w.queue(0)); n != 3 || d.Stats.Failed.Load() == 0 || d.Stats.InProcess.Load() != 0 {
		t.Errorf("%d copies, %d failures, %d in process", n, d.Stats.Failed.Load(), d.Stats.InProcess.Load())
	}
}

// The worker's connection dies with the copies not yet confirmed: nothing is
// lost, whichever of original and copy comes first.
//
// Promise(rabbitmq/notifications): Every channel of the client library's notifications is buffered and
// drained, so that none stops the connection.
func TestConnectionsLostInAStorm(t *testing.T) {
	const n = 900
	w := newWaiting(t, sitetest.Broker(t), 200*time.Millisecond)
	p := rabbittest.NewProxy(t, w.Broker.Address())
	dsn := rabbittest.DSN(p.Address(), w.VHost)
	w.Publish(w.Messages(n)...)
	d := w.retries(dsn, sitetest.Quiet)
	f := failFirst(2)
	config := w.config()
	config.DSN, config.MaxRetries, config.Prefetch = dsn, 100, 200
	r := w.runWith(d, config, f.deliver)
	for i := range 3 {
		sitetest.Eventually(t, "some copies", func() bool { return d.Stats.Replaced.Load() > int64(i*300) })
		p.Cut()
	}
	sitetest.Eventually(t, "every event settled", func() bool { return f.settled() == n })
	sitetest.Eventually(t, "nothing left", func() bool {
		return d.Stats.Waiting.Load() == 0 && r.Stats.Unacked.Load() == 0 && w.Depth(w.Names.Queue) == 0 &&
			w.Depth(w.queue(0)) == 0 && w.Depth(w.queue(1)) == 0
	})
	if r.Stats.Redelivered.Load() == 0 {
		t.Error("nothing was interrupted")
	}
	if n := w.Depth(w.Names.DeadLetters); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// The broker is killed while copies wait: they come back, with their attempts.
// So may originals, whose acknowledgement it had not yet written: they fail
// again, and only a copy settles its event.
//
// Promise(rabbitmq/dead-lettering): A copy is confirmed before the original is acknowledged; quorum
// queues dead-letter at least once.
// Promise(event/retry-delays)
func TestBrokerKilledWhileRetriesWait(t *testing.T) {
	const n = 300
	w := newWaiting(t, sitetest.OwnBroker(t), 10*time.Second)
	w.Publish(w.Messages(n)...)
	d := w.retries(w.DSN, sitetest.Quiet)
	var back sync.Map
	var distinct atomic.Int64
	r := w.runWith(d, w.config(), func(_ context.Context, deliveries []profile.Delivery) error {
		for _, e := range deliveries {
			if e.FirstSeen == 0 {
				e.Settler.Settle(retryOf(errAttempt))
				continue
			}
			if _, twice := back.LoadOrStore(e.Event.MessageID, true); !twice {
				distinct.Add(1)
			}
			e.Settler.Settle(folded)
		}
		return nil
	})
	sitetest.Eventually(t, "all confirmed in the delay queue", func() bool { return d.Stats.Replaced.Load() == n })
	if distinct.Load() > 0 {
		t.Error("none was waiting")
	}
	w.Broker.Flush(t)
	w.Broker.Kill()
	w.Broker.Restart(t)
	sitetest.Eventually(t, "every copy back", func() bool { return distinct.Load() == n })
	sitetest.Eventually(t, "nothing left", func() bool {
		return d.Stats.Waiting.Load() == 0 && r.Stats.Unacked.Load() == 0 && w.Depth(w.Names.Queue) == 0 && w.Depth(w.queue(0)) == 0
	})
}

// Without delay queues events wait in process, and the log says once what to
// do; when that is done they wait at the broker.
//
// Promise(rabbitmq/dead-lettering)
func TestDelayQueueMissing(t *testing.T) {
	const n = 50
	w := &waiting{shared(t), 50 * time.Millisecond}
	w.Publish(w.Messages(n)...)
	var log logtest.Buffer
	d := w.retries(w.DSN, slog.New(slog.NewTextHandler(&log, nil)))
	f := failFirst(1)
	r := w.runWith(d, w.config(), f.deliver)
	sitetest.Eventually(t, "every event settled and acknowledged", func() bool { return f.settled() == n && r.Stats.Acked.Load() == n })
	if d.Stats.InProcess.Load() != n || d.Stats.Replaced.Load() != 0 || r.Stats.Redelivered.Load() != 0 {
		t.Errorf("%d in process, %d replaced", d.Stats.InProcess.Load(), d.Stats.Replaced.Load())
	}
	if told := log.Count("run rabbit.Setup"); told != 1 {
		t.Errorf("told %d times what to do", told)
	}
	w.declare()
	m := w.Messages(n + 1)[n]
	w.Publish(m)
	sitetest.Eventually(t, "one through the delay queue", func() bool { return f.settled() == n+1 && d.Stats.Replaced.Load() == 1 })
}

// A broker that delivers and refuses copies does not keep events for ever.
//
// Promise(rabbitmq/dead-lettering)
func TestDelayQueueRefuses(t *testing.T) {
	w := &waiting{shared(t), 50 * time.Millisecond}
	_, err := w.Channel().QueueDeclare(w.queue(0), true, false, false, false,
		map[string]any{"x-max-length": int32(0), "x-overflow": "reject-publish"})
	must.OK(t, err)
	w.Publish(w.Messages(1)...)
	d := w.retries(w.DSN, sitetest.Quiet)
	f := failFirst(1)
	r := w.runWith(d, w.config(), f.deliver)
	sitetest.Eventually(t, "settled", func() bool { return f.settled() == 1 && r.Stats.Acked.Load() == 1 })
	if d.Stats.InProcess.Load() != 1 || d.Stats.Failed.Load() != maxPublishes {
		t.Errorf("%d in process after %d failures", d.Stats.InProcess.Load(), d.Stats.Failed.Load())
	}
}

// A stop does not wait for a broker that confirms nothing, and what it had not
// confirmed is delivered again.
//
// Promise(shutdown/in-time)
func TestStopWithUnconfirmedCopies(t *testing.T) {
	const n = 20
	w := newWaiting(t, sitetest.Broker(t), time.Minute)
	p := rabbittest.NewProxy(t, w.Broker.Address())
	d := w.retries(rabbittest.DSN(p.Address(), w.VHost), sitetest.Quiet)
	p.Freeze()
	w.Publish(w.Messages(n)...)
	f := failFirst(1)
	r := w.runWith(d, w.config(), f.deliver)
	sitetest.Eventually(t, "all parked", func() bool { return d.Stats.Waiting.Load() == n })
	if err := r.end(200 * time.Millisecond); err == nil {
		t.Error("Close did not say that messages are open")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Close(ended); err != nil {
		t.Error(err)
	}
	if r.Stats.Acked.Load() != 0 || d.Stats.Waiting.Load() != 0 {
		t.Errorf("%d acknowledged", r.Stats.Acked.Load())
	}
	d.park(nil, 0) // does nothing any more
	sitetest.Eventually(t, "all back in the queue", func() bool { return w.Depth(w.Names.Queue) == n })
}

// What the broker has taken back is not published: it would be one too many.
//
// Promise(rabbitmq/dead-lettering)
func TestNoCopyOfWhatTheBrokerTookBack(t *testing.T) {
	stats := &Stats{}
	lives := &session{stats: stats, ended: make(chan struct{}), settledAll: make(chan struct{}, 1)}
	over := &session{stats: stats, ended: make(chan struct{}), settledAll: make(chan struct{}, 1)}
	over.end(errGiveBack)
	var group []pendingCopy
	for _, s := range []*session{over, lives, over} {
		s.occupy()
		group = append(group, pendingCopy{settler: &settler{session: s}})
	}
	d := &DelayQueues{}
	d.Stats.Waiting.Store(3)
	left := d.newQueue(wait{delay: time.Second}).copies.live(group)
	if len(left) != 1 || left[0].session != lives || stats.Stale.Load() != 2 || d.Stats.Waiting.Load() != 1 ||
		over.unsettled.Load() != 0 || lives.unsettled.Load() != 1 {
		t.Errorf("%d left, %d stale, %d and %d waited for", len(left), stats.Stale.Load(), over.unsettled.Load(), lives.unsettled.Load())
	}
}
