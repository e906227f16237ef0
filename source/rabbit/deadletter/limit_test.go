package deadletter

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/topology"
)

// consume runs a consumer until the function it returns is called, which closes it.
// What is delivered is in the channel, which has room for all of it.
func (s *site) consume() (c *consume.Consumer, delivered chan profile.Delivery, end func() error) {
	s.t.Helper()
	delivered = make(chan profile.Delivery, 10_000)
	log := slog.New(slog.DiscardHandler)
	c, err := consume.New(consume.Config{
		DSN: s.dsn, Names: s.names, Identity: rabbit.ThisProcess("test"), QueueType: topology.Quorum,
		Prefetch: 1000, MaxRetries: 5, RetryDelay: 20 * time.Millisecond,
		Timing: rabbit.Timing{BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond},
	}, consume.Ports{Retries: consume.InProcess{}, Log: log})
	must.OK(s.t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- c.Run(ctx, consume.Events(func(_ context.Context, deliveries []profile.Delivery) error {
			for _, d := range deliveries {
				delivered <- d
			}
			return nil
		}))
	}()
	return c, delivered, func() error {
		stop()
		if err := <-done; err != nil {
			s.t.Errorf("Run: %v", err)
		}
		closing, cancel := context.WithTimeout(context.Background(), ample)
		defer cancel()
		return c.Close(closing)
	}
}

// A broker gives messages up after the deliveries that a policy allows,
// whatever the queue's own arguments say. Each of them is among the dead
// letters, with the reason, and a replay brings it back.
//
// Promise(rabbitmq/delivery-limit): `setup` puts the quorum queues' delivery limit out of reach,
// `work` compares arguments at start and warns of the tenth delivery.
func TestDeliveryLimitPolicy(t *testing.T) {
	t.Parallel()
	const n = 300
	s := newSite(t, rabbittest.Own(t), topology.Quorum)
	s.broker.SetPolicy(t, s.vhost, "^"+s.names.Queue+"$", `{"delivery-limit":3}`)
	s.publishEvents(n)
	c, delivered, end := s.consume()
	for round := int64(1); s.depth(s.names.DeadLetters) < n; round++ {
		if round > 20 {
			t.Fatalf("%d of %d events are among the dead letters, %d in the queue", s.depth(s.names.DeadLetters), n, s.depth(s.names.Queue))
		}
		must.Hold(t, "another session", func() bool { return c.Stats.Connects.Load() >= round && c.Ready() == nil })
		must.Hold(t, "deliveries, or none left", func() bool {
			return len(delivered) > 0 || s.depth(s.names.Queue) == 0
		})
		for len(delivered) > 0 {
			<-delivered
		}
		s.broker.CloseConnections(t, s.vhost, "consumer")
	}
	if err := end(); err != nil {
		t.Log(err) // what the last session held is the broker's
	}
	s.broker.ClearPolicy(t, s.vhost)
	given := map[string]int{}
	s.scan(func(scan *Scan, l *Letter) {
		if l.Reason != "delivery_limit" || l.Fault != nil || l.LastFailure.IsZero() || l.User == "" || l.Kind != "product_view" {
			t.Errorf("a dead letter reads %+v", l)
		}
		given[l.ID]++
		m := l.Replay(s.names, false)
		if m.Headers[rabbit.HeaderFirstSeen] == nil {
			t.Error("it was delivered before, and the replay does not say so")
		}
		s.publish(m)
		if err := scan.Remove(l); err != nil {
			t.Error(err)
		}
	})
	if len(given) != n {
		t.Errorf("%d of %d events are among the dead letters", len(given), n)
	}
	_, delivered, end = s.consume() // another channel: the first may hold what came as its session ended
	must.Hold(t, "all are delivered again", func() bool { return len(delivered) >= n })
	for range len(delivered) {
		d := <-delivered
		d.Settler.Settle(engine.Verdict{Outcome: engine.Folded})
		delete(given, d.Event.MessageID)
	}
	if len(given) != 0 {
		t.Errorf("%d events did not come back", len(given))
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// publishEvents publishes n different events.
func (s *site) publishEvents(n int) {
	s.t.Helper()
	all := make([]rabbit.Message, n)
	for i := range all {
		body := fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_view","product_id":%d,`+
			`"occurred_at":"2026-02-10T14:30:00+00:00","message_id":"m%06d"}`, i%500+1, i%90+1, i)
		e, err := profile.ParseEvent(body, time.Now())
		must.OK(s.t, err)
		all[i] = s.names.EventMessage(body, &e)
	}
	s.publish(all...)
}

// A pass over the dead letters that takes too long says so, and that its last
// removals may be lost; the letters are there.
func TestScanForTooLong(t *testing.T) {
	s := shared(t) // no other test runs meanwhile
	s.broker.Hurry(t, 4*time.Second)
	s.publish(rabbit.Message{RoutingKey: s.names.DeadLetters, ID: "a", Body: []byte("{}")},
		rabbit.Message{RoutingKey: s.names.DeadLetters, ID: "b", Body: []byte("{}")})
	scan, err := Open(t.Context(), s.dsn, s.names)
	must.OK(t, err)
	scan.removed++ // as though it had removed one just before the end
	var lost error
	for _, err := range scan.Letters(t.Context()) {
		if lost = err; err == nil {
			must.Hold(t, "the channel is closed", scan.channel.IsClosed)
		}
	}
	if lost == nil || !strings.Contains(lost.Error(), "consumer_timeout") || !strings.Contains(lost.Error(), "--limit") {
		t.Errorf("no cure in %v", lost)
	}
	if err := scan.Close(); err == nil {
		t.Error("removals that may be lost were reported as done")
	}
	must.Hold(t, "both letters are there", func() bool { return s.depth(s.names.DeadLetters) == 2 })
}
