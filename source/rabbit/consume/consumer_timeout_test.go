package consume

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit/topology"
)

// holdable is how long the broker of these tests lets a message be
// held: long enough for a busy machine to settle what is not to be held.
const holdable = 4 * time.Second

// The broker closes the channel that holds some messages for too long. The cure
// is logged, a new session is made by itself, those messages and no others come
// again, what is said of them late is dropped, and each is settled once.
//
// Promise(rabbitmq/consumer-timeout)
func TestConsumerTimeout(t *testing.T) {
	b := sitetest.OwnBroker(t)
	b.Hurry(t, holdable)
	// One after another: tests that wait for their turn with the broker have the places of
	// parallel ones.
	for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum} {
		t.Run(string(kind), func(t *testing.T) { heldForTooLong(t, b, kind) })
	}
	t.Run("paused", func(t *testing.T) { pausedForTooLong(t, b) })
}

func heldForTooLong(t *testing.T, b *rabbittest.Broker, kind topology.QueueType) {
	const n, left = 60, 5
	s := &site{sitetest.New(t, b)}
	must.OK(t, topology.Setup(t.Context(), s.DSN, topology.Config{Names: s.Names, QueueType: kind}))
	s.Publish(s.Messages(n)...)
	var in inbox
	var log logtest.Buffer
	config := s.config()
	var consumer atomic.Pointer[Consumer]
	var second inbox // of the second session; the first one has ended when it begins
	r := s.runLogged(slog.New(slog.NewTextHandler(&log, nil)), InProcess{}, config, func(ctx context.Context, deliveries []profile.Delivery) error {
		if c := consumer.Load(); c != nil && c.generation.Load() == 2 {
			return second.deliver(ctx, deliveries)
		}
		return in.deliver(ctx, deliveries)
	})
	consumer.Store(r.Consumer)
	sitetest.Eventually(t, "all delivered", func() bool { return in.len() == n })
	first := in.take()
	held, others := first[:left], first[left:]
	settleAtOnce(t.Context(), others)
	sitetest.Eventually(t, "the others acknowledged", func() bool { return r.Stats.Acked.Load() == n-left })

	sitetest.Eventually(t, "a new session", func() bool { return strings.Contains(log.String(), "generation=2") })
	late := r.Stats.Stale.Load()
	settleAtOnce(t.Context(), held)
	if stale := r.Stats.Stale.Load() - late; stale != left {
		t.Errorf("%d late verdicts dropped, want %d", stale, left)
	}
	var again []profile.Delivery
	sitetest.Eventually(t, "the held ones delivered again", func() bool {
		// The first session's other channels are the broker's to use for as long as
		// it has not been told of the end.
		_ = settleAtOnce(t.Context(), in.take())
		came := second.take()
		_ = settleAtOnce(t.Context(), came)
		again = append(again, came...)
		return len(again) >= left
	})
	sitetest.Eventually(t, "all acknowledged", func() bool { return r.Stats.Acked.Load() == n && r.Stats.Unacked.Load() == 0 })
	if !maps.Equal(ids(again), ids(held)) {
		t.Errorf("%v came again, want %v", ids(again), ids(held))
	}
	for _, want := range []string{"consumer not connected", "PRECONDITION_FAILED", "consumer_timeout", "write sooner", "generation=2", "away_for="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
	if err := r.Ready(); err != nil {
		t.Errorf("not consuming: %v", err)
	}
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	st := &r.Stats
	if st.Connects.Load() != 2 || st.Acked.Load() != n || st.Redelivered.Load() != st.Delivered.Load()-n || in.len()+second.len() != 0 || st.DeadLetters.Load() != 0 {
		t.Errorf("%d sessions, %d acknowledged, %d delivered, %d of them again, %d unexpected, %d dead letters",
			st.Connects.Load(), st.Acked.Load(), st.Delivered.Load(), st.Redelivered.Load(), in.len()+second.len(), st.DeadLetters.Load())
	}
	if rest := s.Depth(s.Names.Queue); rest != 0 {
		t.Errorf("%d messages left", rest)
	}
}

// The same while consuming is paused: nothing is delivered before Resume.
func pausedForTooLong(t *testing.T, b *rabbittest.Broker) {
	const n = 10
	s := newSite(t, b)
	s.Publish(s.Messages(n)...)
	var in inbox
	r := s.run(s.config(), in.deliver)
	sitetest.Eventually(t, "all delivered", func() bool { return in.len() == n })
	held := in.take()
	r.Pause()
	sitetest.Eventually(t, "a new session", func() bool { return r.Stats.Connects.Load() == 2 })
	sitetest.Eventually(t, "all wait at the broker", func() bool { return s.Depth(s.Names.Queue) == n })
	if in.len() != 0 {
		t.Errorf("%d were delivered while paused", in.len())
	}
	settleAtOnce(t.Context(), held)
	r.Resume()
	sitetest.Eventually(t, "all delivered again", func() bool { return in.len() == n })
	settleAtOnce(t.Context(), in.take())
	sitetest.Eventually(t, "all acknowledged", func() bool { return r.Stats.Acked.Load() == n })
	if stale := r.Stats.Stale.Load(); stale != n {
		t.Errorf("%d late verdicts dropped, want %d", stale, n)
	}
	if err := r.end(sitetest.Ample); err != nil || s.Depth(s.Names.Queue) != 0 {
		t.Errorf("%v, %d left", err, s.Depth(s.Names.Queue))
	}
}
