package rabbit

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
)

// The connection dies when the broker has the copy and its confirm is on the
// way: the original stays unacknowledged until a second copy is confirmed.
func TestCopyOfUnknownFate(t *testing.T) {
	w := newWaiting(t, sharedBroker(t), time.Minute)
	p := rabbittest.NewProxy(t, w.broker.Address())
	d := w.retries(rabbittest.DSN(p.Address(), w.vhost), quiet)
	all := w.messages(2)
	w.publish(all[0])
	r := w.runWith(d, w.config(), failFirst(1).deliver)
	eventually(t, "a first copy, over a connection that is now open", func() bool { return r.Stats.Acked.Load() == 1 })

	p.Delay(3 * time.Second)
	w.publish(all[1])
	eventually(t, "the second copy at the broker", func() bool { return w.depth(w.queue(0)) == 2 })
	if r.Stats.Acked.Load() != 1 || r.Stats.Unacked.Load() != 1 {
		t.Error("acknowledged before the confirm")
	}
	p.Cut()
	p.Delay(0)
	eventually(t, "a copy of the copy, confirmed", func() bool { return r.Stats.Acked.Load() == 2 })
	if n := w.depth(w.queue(0)); n != 3 || d.Stats.Failed.Load() == 0 || d.Stats.InProcess.Load() != 0 {
		t.Errorf("%d copies, %d failures, %d in process", n, d.Stats.Failed.Load(), d.Stats.InProcess.Load())
	}
}

// The worker's connection dies with the copies not yet confirmed: nothing is
// lost, whichever of original and copy comes first.
func TestConnectionsLostInAStorm(t *testing.T) {
	const n = 2000
	w := newWaiting(t, sharedBroker(t), 200*time.Millisecond)
	p := rabbittest.NewProxy(t, w.broker.Address())
	dsn := rabbittest.DSN(p.Address(), w.vhost)
	w.publish(w.messages(n)...)
	d := w.retries(dsn, quiet)
	f := failFirst(2)
	config := w.config()
	config.DSN, config.MaxRetries, config.Prefetch = dsn, 100, 200
	r := w.runWith(d, config, f.deliver)
	for i := range 3 {
		eventually(t, "some copies", func() bool { return d.Stats.Replaced.Load() > int64(i*300) })
		p.Cut()
	}
	eventually(t, "every event settled", func() bool { return f.settled() == n })
	eventually(t, "nothing left", func() bool {
		return d.Stats.Waiting.Load() == 0 && r.Stats.Unacked.Load() == 0 && w.depth(w.names.Queue) == 0 &&
			w.depth(w.queue(0)) == 0 && w.depth(w.queue(1)) == 0
	})
	if r.Stats.Redelivered.Load() == 0 {
		t.Error("nothing was interrupted")
	}
	if n := w.depth(w.names.DeadLetters); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// The broker is killed while copies wait: they come back, with their attempts.
// So may originals, whose acknowledgement it had not yet written: they fail
// again, and only a copy settles its event.
func TestBrokerKilledWhileRetriesWait(t *testing.T) {
	t.Parallel()
	const n = 300
	w := newWaiting(t, rabbittest.Start(t), 10*time.Second)
	w.publish(w.messages(n)...)
	d := w.retries(w.dsn, quiet)
	var back sync.Map
	var distinct atomic.Int64
	r := w.runWith(d, w.config(), func(_ context.Context, deliveries []engine.Delivery) error {
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
	eventually(t, "all confirmed in the delay queue", func() bool { return d.Stats.Replaced.Load() == n })
	if distinct.Load() > 0 {
		t.Error("none was waiting")
	}
	w.broker.Flush(t)
	w.broker.Kill()
	w.broker.Restart(t)
	eventually(t, "every copy back", func() bool { return distinct.Load() == n })
	eventually(t, "nothing left", func() bool {
		return d.Stats.Waiting.Load() == 0 && r.Stats.Unacked.Load() == 0 && w.depth(w.names.Queue) == 0 && w.depth(w.queue(0)) == 0
	})
}

// buffer is a log's text.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

// Without delay queues events wait in process, and the log says once what to
// do; when that is done they wait at the broker.
func TestDelayQueueMissing(t *testing.T) {
	const n = 50
	w := &waiting{shared(t), 50 * time.Millisecond}
	w.publish(w.messages(n)...)
	var log buffer
	d := w.retries(w.dsn, slog.New(slog.NewTextHandler(&log, nil)))
	f := failFirst(1)
	r := w.runWith(d, w.config(), f.deliver)
	eventually(t, "every event settled and acknowledged", func() bool { return f.settled() == n && r.Stats.Acked.Load() == n })
	if d.Stats.InProcess.Load() != n || d.Stats.Replaced.Load() != 0 || r.Stats.Redelivered.Load() != 0 {
		t.Errorf("%d in process, %d replaced", d.Stats.InProcess.Load(), d.Stats.Replaced.Load())
	}
	if told := log.count("run `keyfold setup`"); told != 1 {
		t.Errorf("told %d times what to do", told)
	}
	w.declare()
	m := w.messages(n + 1)[n]
	w.publish(m)
	eventually(t, "one through the delay queue", func() bool { return f.settled() == n+1 && d.Stats.Replaced.Load() == 1 })
}

// A broker that delivers and refuses copies does not keep events for ever.
func TestDelayQueueRefuses(t *testing.T) {
	w := &waiting{shared(t), 50 * time.Millisecond}
	_, err := w.channel().QueueDeclare(w.queue(0), true, false, false, false,
		map[string]any{"x-max-length": int32(0), "x-overflow": "reject-publish"})
	if err != nil {
		t.Fatal(err)
	}
	w.publish(w.messages(1)...)
	d := w.retries(w.dsn, quiet)
	f := failFirst(1)
	r := w.runWith(d, w.config(), f.deliver)
	eventually(t, "settled", func() bool { return f.settled() == 1 && r.Stats.Acked.Load() == 1 })
	if d.Stats.InProcess.Load() != 1 || d.Stats.Failed.Load() != maxPublishes {
		t.Errorf("%d in process after %d failures", d.Stats.InProcess.Load(), d.Stats.Failed.Load())
	}
}

// A stop does not wait for a broker that confirms nothing, and what it had not
// confirmed is delivered again.
func TestStopWithUnconfirmedCopies(t *testing.T) {
	const n = 20
	w := newWaiting(t, sharedBroker(t), time.Minute)
	p := rabbittest.NewProxy(t, w.broker.Address())
	d := w.retries(rabbittest.DSN(p.Address(), w.vhost), quiet)
	p.Freeze()
	w.publish(w.messages(n)...)
	f := failFirst(1)
	r := w.runWith(d, w.config(), f.deliver)
	eventually(t, "all parked", func() bool { return d.Stats.Waiting.Load() == n })
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
	eventually(t, "all back in the queue", func() bool { return w.depth(w.names.Queue) == n })
}

// What the broker has taken back is not published: it would be one too many.
func TestNoCopyOfWhatTheBrokerTookBack(t *testing.T) {
	stats := &ConsumerStats{}
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
