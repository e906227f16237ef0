package consume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// 2,000 events, settled in random order from many goroutines: all arrive once,
// the queue is empty, and nothing comes again.
func TestRoundTrip(t *testing.T) {
	for _, queueType := range []topology.QueueType{topology.Classic, topology.Quorum} {
		t.Run(string(queueType), func(t *testing.T) { roundTrip(t, queueType) })
	}
}

func roundTrip(t *testing.T, queueType topology.QueueType) {
	const n = 2000
	b := rabbittest.Shared(t)
	s := &site{sitetest.New(t, b)}
	must.OK(t, topology.Setup(t.Context(), s.DSN, topology.Config{Names: s.Names, QueueType: queueType}))
	s.Publish(s.Messages(n)...)
	settling := make(chan profile.Delivery, n)
	var seen sync.Map
	var handed atomic.Int64
	config := s.config()
	config.Prefetch = 800
	r := s.run(config, func(_ context.Context, deliveries []profile.Delivery) error {
		for _, d := range deliveries {
			if _, twice := seen.LoadOrStore(d.Event.MessageID, true); twice {
				t.Errorf("%s came twice", d.Event.MessageID)
			}
			settling <- d
			handed.Add(1)
		}
		return nil
	})
	outcomes := []engine.Outcome{engine.Folded, engine.Duplicate, engine.ProductMissing, engine.UserErased}
	var working sync.WaitGroup
	for range 16 {
		working.Go(func() {
			var some []profile.Delivery
			for d := range settling {
				some = append(some, d)
				if len(some) < 20 && handed.Load() < n-400 {
					continue
				}
				rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
				for _, d := range some {
					d.Settler.Settle(engine.Verdict{Outcome: outcomes[rand.IntN(4)]})
				}
				some = some[:0]
			}
			for _, d := range some {
				d.Settler.Settle(folded)
			}
		})
	}
	sitetest.Eventually(t, "every event handed over", func() bool { return handed.Load() == n })
	close(settling)
	working.Wait()
	sitetest.Eventually(t, "every event acknowledged", func() bool { return r.Stats.Acked.Load() == n && r.Stats.Unacked.Load() == 0 })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	if left := s.Depth(s.Names.Queue); left != 0 || r.Stats.Redelivered.Load() != 0 || r.Stats.Stale.Load() != 0 {
		t.Errorf("%d left, %d redelivered, %d stale", left, r.Stats.Redelivered.Load(), r.Stats.Stale.Load())
	}
	t.Logf("%d acknowledgements in %d frames", n, r.Stats.AckFrames.Load())
}

// The connection dies with some settled and acknowledged and others open: what
// comes again is exactly what was not settled.
//
// Promise(rabbitmq/generations)
func TestRedeliveredIsWhatWasNotSettled(t *testing.T) {
	const n = 1200
	s := shared(t)
	p := rabbittest.NewProxy(t, s.Broker.Address())
	s.Publish(s.Messages(n)...)
	var in inbox
	config := s.config()
	config.DSN, config.Prefetch = rabbittest.DSN(p.Address(), s.VHost), n
	r := s.run(config, in.deliver)
	sitetest.Eventually(t, "all delivered", func() bool { return in.len() == n })
	first := in.take()
	rand.Shuffle(n, func(i, j int) { first[i], first[j] = first[j], first[i] })
	settled, open := first[:700], first[700:]
	for _, d := range settled {
		d.Settler.Settle(folded)
	}
	sitetest.Eventually(t, "settled ones acknowledged", func() bool { return r.Stats.Acked.Load() == 700 })
	// The channel is asynchronous: what left here is not yet there.
	sitetest.Eventually(t, "the broker knows", func() bool {
		depths, err := s.Broker.Depths(s.VHost)
		must.OK(t, err)
		return depths[s.Names.Queue] == 500
	})
	p.Cut()
	sitetest.Eventually(t, "the open ones delivered again", func() bool { return in.len() >= len(open) })
	again := in.take()
	if !maps.Equal(ids(again), ids(open)) {
		t.Errorf("%d delivered again, want the %d open ones", len(again), len(open))
	}
	for _, d := range append(open, again...) {
		d.Settler.Settle(folded)
	}
	sitetest.Eventually(t, "all acknowledged", func() bool { return r.Stats.Acked.Load() == n })
	if stale := r.Stats.Stale.Load(); stale != int64(len(open)) {
		t.Errorf("%d stale settlements dropped, want %d", stale, len(open))
	}
	if err := r.end(sitetest.Ample); err != nil || s.Depth(s.Names.Queue) != 0 {
		t.Errorf("%v, %d left", err, s.Depth(s.Names.Queue))
	}
}

// The broker closes the connection again and again while events are settled at
// random: nothing is lost, and no settlement meets another message. Half of the
// events wait until it is over, so that each time some are open, however long the
// closing takes.
//
// Promise(away/broker-dies)
func TestConnectionClosedByBroker(t *testing.T) {
	const n = 1000
	s := shared(t)
	s.Publish(s.Messages(n)...)
	var done sync.Map
	var distinct atomic.Int64
	over, waiting := make(chan struct{}), fmt.Sprintf("m%06d", n/2)
	config := s.config()
	config.Prefetch = 40 // makes it last
	r := s.run(config, func(_ context.Context, deliveries []profile.Delivery) error {
		for _, d := range deliveries {
			go func() {
				time.Sleep(rand.N(100 * time.Millisecond))
				if d.Event.MessageID >= waiting {
					<-over
				}
				if _, twice := done.LoadOrStore(d.Event.MessageID, true); !twice {
					distinct.Add(1)
				}
				d.Settler.Settle(folded)
			}()
		}
		return nil
	})
	for i := range int64(3) {
		sitetest.Eventually(t, "consuming, with events open", func() bool {
			return r.Stats.Connects.Load() > i && r.Ready() == nil && r.Stats.Unacked.Load() > 0
		})
		if s.Broker.CloseConnections(t, s.VHost, "keyfold test consumer") == 0 {
			t.Error("no connection was closed")
		}
	}
	close(over)
	sitetest.Eventually(t, "every event settled", func() bool { return distinct.Load() == n })
	sitetest.Eventually(t, "queue empty", func() bool { return r.Stats.Unacked.Load() == 0 && s.Depth(s.Names.Queue) == 0 })
	if r.Stats.Stale.Load() == 0 || r.Stats.Connects.Load() < 2 || r.Stats.Redelivered.Load() == 0 {
		t.Errorf("stale %d, connects %d, redelivered %d: nothing was interrupted",
			r.Stats.Stale.Load(), r.Stats.Connects.Load(), r.Stats.Redelivered.Load())
	}
}

// Promise(away/broker-dies)
func TestBrokerKilled(t *testing.T) {
	const n = 500
	s := newSite(t, sitetest.OwnBroker(t))
	s.Publish(s.Messages(n)...)
	var in inbox
	r := s.run(s.config(), in.deliver)
	sitetest.Eventually(t, "all delivered", func() bool { return in.len() == n })
	held := in.take()
	s.Broker.Flush(t)
	s.Broker.Kill()
	sitetest.Eventually(t, "the loss noticed", func() bool { return r.Ready() != nil })
	held[0].Settler.Settle(folded)
	s.Broker.Restart(t)
	sitetest.Eventually(t, "all delivered again", func() bool { return in.len() == n })
	for _, d := range in.take() {
		d.Settler.Settle(folded)
	}
	sitetest.Eventually(t, "all acknowledged", func() bool { return r.Stats.Acked.Load() == n })
	if err := r.Ready(); err != nil || r.Stats.Stale.Load() != 1 {
		t.Errorf("%v, %d stale", err, r.Stats.Stale.Load())
	}
}

// A deleted queue is not made again: that is for setup.
//
// Promise(away/queue-deleted): A worker whose queue was deleted, or has other arguments, waits for it,
// says the cure, and consumes it again.
// Promise(rabbitmq/notifications)
func TestQueueDeleted(t *testing.T) {
	s := shared(t)
	var in inbox
	r := s.run(s.config(), in.deliver)
	sitetest.Eventually(t, "consuming", func() bool { return r.Ready() == nil })
	s.Broker.DeleteQueue(t, s.VHost, s.Names.Queue)
	sitetest.Eventually(t, "the missing queue told", func() bool {
		return engine.ReasonOf(r.Ready()) == rabbit.ReasonQueueMissing
	})
	if err := r.Ready(); engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "rabbit.Setup") {
		t.Error(err)
	}
	if r.Stats.Cancelled.Load() == 0 {
		t.Error("the cancellation was not seen")
	}
	s.setup()
	s.Publish(s.Messages(1)...)
	sitetest.Eventually(t, "delivery from the new queue", func() bool { return in.len() == 1 })
	in.take()[0].Settler.Settle(folded)
}

// Promise(event/configuration, away/queue-deleted)
func TestConfigurationFaultsAtStart(t *testing.T) {
	b := rabbittest.Shared(t)
	s := &site{sitetest.New(t, b)}
	for reason, dsn := range map[string]string{
		rabbit.ReasonQueueMissing: s.DSN,
		rabbit.ReasonVHostRefused: b.DSN("nowhere"),
	} {
		config := s.config()
		config.DSN = dsn
		c, err := New(config, Ports{Log: sitetest.Quiet})
		must.OK(t, err)
		err = c.Run(sitetest.Within(t, sitetest.Ample), Events(settleAtOnce))
		if engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != reason {
			t.Errorf("%s: %v", reason, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// While deliver does not return, no more than the prefetch is taken.
//
// Promise(rabbitmq/prefetch): Prefetch bounds deliveries, also across a pause.
func TestPrefetchBounds(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(1500)...)
	for _, prefetch := range []int{1, 40, 1100} {
		release := make(chan struct{})
		config := s.config()
		config.Prefetch = prefetch
		r := s.run(config, func(ctx context.Context, deliveries []profile.Delivery) error {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		sitetest.Eventually(t, "prefetch taken", func() bool { return s.Depth(s.Names.Queue) == 1500-prefetch })
		time.Sleep(50 * time.Millisecond)
		if n := s.Depth(s.Names.Queue); n != 1500-prefetch {
			t.Errorf("prefetch %d: %d of 1500 left", prefetch, n)
		}
		close(release)
		_ = r.end(0)
		sitetest.Eventually(t, "all back", func() bool { return s.Depth(s.Names.Queue) == 1500 })
	}
}

func TestHoldAndPause(t *testing.T) {
	const n = 300
	s := shared(t)
	s.Publish(s.Messages(n)...)
	var in inbox
	r := s.run(s.config(), in.deliver)
	sitetest.Eventually(t, "all delivered", func() bool { return in.len() == n })
	r.Pause()
	sitetest.Eventually(t, "paused", func() bool { return r.Ready() != nil })
	s.unsubscribed()
	for i, d := range in.take() {
		if i < 100 {
			d.Settler.Settle(folded)
		} else {
			d.Settler.Settle(engine.Verdict{Outcome: engine.Unsettled, Err: errors.New("fault")})
		}
	}
	sitetest.Eventually(t, "100 acknowledged", func() bool { return r.Stats.Acked.Load() == 100 })
	s.Publish(s.Messages(10)...)
	sitetest.Eventually(t, "ten in the queue", func() bool { return s.Depth(s.Names.Queue) == 10 })
	if in.len() != 0 || r.Stats.Unacked.Load() != n-100 || r.Stats.Held.Load() != n-100 {
		t.Errorf("paused: %d delivered, %d unacknowledged", in.len(), r.Stats.Unacked.Load())
	}
	r.Resume()
	sitetest.Eventually(t, "held ones delivered again", func() bool { return in.len() == n-100+10 })
	for _, d := range in.take() {
		d.Settler.Settle(folded)
	}
	sitetest.Eventually(t, "all acknowledged", func() bool { return r.Stats.Acked.Load() == n+10 && r.Ready() == nil })

	// Without held messages the channel stays.
	connects := r.Stats.Connects.Load()
	for range 5 {
		r.Pause()
		time.Sleep(5 * time.Millisecond)
		r.Resume()
	}
	s.Publish(s.Messages(10)...)
	sitetest.Eventually(t, "delivery after pauses", func() bool { return in.len() == 10 })
	if r.Stats.Connects.Load() != connects {
		t.Error("a pause cost the connection")
	}
	for _, d := range in.take() {
		d.Settler.Settle(folded)
	}
}

// Pausing over and over never lets more than the prefetch be held.
//
// Promise(rabbitmq/prefetch)
func TestPauseKeepsThePrefetch(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(1000)...)
	var in inbox
	config := s.config()
	config.Prefetch = 100
	r := s.run(config, in.deliver)
	for round := range 5 {
		kept := 5 * round // of the rounds before, unsettled
		sitetest.Eventually(t, "some delivered", func() bool { return in.len()+kept >= 50 })
		r.Pause()
		sitetest.Eventually(t, "paused", func() bool { return errors.Is(r.Ready(), errOnPause) })
		r.Resume()
		time.Sleep(20 * time.Millisecond)
		// What is unsettled, and not Stats.Unacked: an acknowledgement that is on its way
		// is counted there for a moment after the broker has it.
		if n := in.len() + kept; n > 100 {
			t.Errorf("%d held with a prefetch of 100", n)
		}
		held := in.take()
		for _, d := range held[:max(0, len(held)-5)] {
			d.Settler.Settle(folded)
		}
		for _, d := range held[max(0, len(held)-5):] {
			defer d.Settler.Settle(folded)
		}
	}
}

// What deliver refuses is not waited for; what it took and did not settle is.
func TestDeliverErrorEndsRun(t *testing.T) {
	for _, taken := range []int{0, 1} {
		s := newSite(t, rabbittest.Shared(t))
		s.Publish(s.Messages(5)...)
		c, err := New(s.config(), Ports{Log: sitetest.Quiet})
		must.OK(t, err)
		broken := errors.New("no more")
		refuse := func(_ context.Context, deliveries []profile.Delivery) error {
			for _, d := range deliveries[taken:] {
				d.Settler.Settle(engine.Verdict{Outcome: engine.Unsettled, Err: broken})
			}
			return broken
		}
		if err := c.Run(t.Context(), Events(refuse)); !errors.Is(err, broken) {
			t.Error(err)
		}
		closing := t.Context()
		if taken > 0 {
			closing = sitetest.Within(t, 50*time.Millisecond)
		}
		if err := c.Close(closing); errors.Is(err, context.DeadlineExceeded) != (taken > 0) {
			t.Errorf("Close with %d unsettled events: %v", taken, err)
		}
		sitetest.Eventually(t, "all back", func() bool { return s.Depth(s.Names.Queue) == 5 })
	}
}

// A stop lets what was handed over be settled, and acknowledges it.
//
// Promise(rabbitmq/stop-order): A worker that stops flushes, acknowledges and then closes its
// consumer.
// Promise(shutdown/in-order)
func TestStopWaitsForVerdicts(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(20)...)
	var in inbox
	r := s.run(s.config(), in.deliver)
	sitetest.Eventually(t, "delivered", func() bool { return in.len() == 20 })
	r.stop()
	settling := make(chan struct{})
	go func() {
		defer close(settling)
		time.Sleep(100 * time.Millisecond)
		for _, d := range in.take() {
			d.Settler.Settle(folded)
		}
	}()
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	<-settling
	if n := s.Depth(s.Names.Queue); n != 0 {
		t.Errorf("%d came back", n)
	}
}

// A network that swallows everything is noticed by heartbeats: no other limit of the
// connection is over within the test's patience.
//
// Promise(away/silent-network): A silent network is noticed within three heartbeats, and a new
// connection is made.
func TestHalfOpen(t *testing.T) {
	s := shared(t)
	p := rabbittest.NewProxy(t, s.Broker.Address())
	config := s.config()
	config.DSN, config.Timing = rabbittest.DSN(p.Address(), s.VHost), patient
	config.Timing.Heartbeat = 4 * time.Second
	var in inbox
	r := s.run(config, in.deliver)
	sitetest.Eventually(t, "consuming, with these heartbeats", func() bool {
		live := r.live.Load()
		return r.Ready() == nil && live != nil && live.conn.Config.Heartbeat == config.Timing.Heartbeat
	})
	p.Freeze()
	sitetest.Eventually(t, "the silence noticed", func() bool { return r.Ready() != nil })
	p.Thaw()
	p.Cut()
	s.Publish(s.Messages(1)...)
	sitetest.Eventually(t, "delivery on a new connection", func() bool { return in.len() == 1 })
	in.take()[0].Settler.Settle(folded)
}

// Stopping while the network is gone does not wait for it to come back.
//
// Promise(shutdown/in-time, rabbitmq/blocked-publish)
func TestStopHalfOpen(t *testing.T) {
	s := shared(t)
	p := rabbittest.NewProxy(t, s.Broker.Address())
	config := s.config()
	config.DSN, config.Timing = rabbittest.DSN(p.Address(), s.VHost), patient
	var in inbox
	r := s.run(config, in.deliver)
	sitetest.Eventually(t, "consuming", func() bool { return r.Ready() == nil })
	p.Freeze()
	returns(t, "the stop", func() {
		if err := r.end(time.Second); err != nil {
			t.Error(err)
		}
	})
}
