package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/service/profile/pipeline"
	"keyfold/shard"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/rabbit/topology"
	"keyfold/source/sample"
)

// A whole prefetch of one user's events is folded while the link to the broker is
// silent: the acknowledgements are lost, all of them come again, and all their
// ids are still in the profile.
//
// Promise(event/folded-once, away/silent-network)
func TestLostAcknowledgementsOfAWholePrefetch(t *testing.T) {
	limits := settings.Config{Shard: shard.DefaultConfig()}
	n := limits.Prefetch()
	b := rabbittest.Shared(t)
	vhost := b.VHost(t)
	names := rabbit.DefaultNames()
	must.OK(t, topology.Setup(t.Context(), b.DSN(vhost), topology.Config{Names: names, QueueType: topology.Classic}))
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	pub := rabbit.NewPublisher(b.DSN(vhost), rabbit.ThisProcess("test"), "p", rabbit.Timing{}, quiet)
	products := sample.Products()
	var all []rabbit.Message
	for i := range n {
		body := fmt.Appendf(nil, `{"user_id":7,"event_type":"product_view","product_id":%d,"occurred_at":"2026-02-10T14:30:00+00:00","message_id":"m%06d"}`, products[i%len(products)].ID, i)
		e, err := profile.ParseEvent(body, time.Now())
		must.OK(t, err)
		all = append(all, names.EventMessage(body, &e))
	}
	for _, err := range pub.Publish(t.Context(), all) {
		must.OK(t, err)
	}
	j := newJob(t, products, 16)
	ports, err := pipeline.Ports(j.laws, j.store, j.shop)
	must.OK(t, err)
	ports.Log = quiet
	windows := j.windows
	windows.Clock = shard.WallClock
	windows.Window, windows.MaxDelay = 50*time.Millisecond, 100*time.Millisecond
	p, err := pipeline.New(windows, j.laws, ports)
	must.OK(t, err)
	proxy := rabbittest.NewProxy(t, b.Address())
	c, err := consume.New(consume.Config{
		DSN: rabbittest.DSN(proxy.Address(), vhost), Names: names, Identity: rabbit.ThisProcess("test"),
		Prefetch: n, MaxRetries: 5, RetryDelay: time.Second,
		Timing: rabbit.Timing{Heartbeat: 4 * time.Second, Write: 2 * time.Second, Connect: 3 * time.Second, BackoffMin: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond},
	},
		consume.Ports{DeadLetters: deadletter.Queue{Publisher: pub, Names: names}, Retries: consume.InProcess{}, Log: quiet})
	must.OK(t, err)
	var mu sync.Mutex
	var first []profile.Delivery
	at := map[profile.Digest]int{} // in first
	frozen := false
	deliver := func(ctx context.Context, ds []profile.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if frozen {
			return p.Deliver(ctx, ds)
		}
		for _, d := range ds {
			if i, again := at[d.Event.Digest]; again { // a busy machine has lost the connection
				first[i] = d
				continue
			}
			at[d.Event.Digest] = len(first)
			first = append(first, d)
		}
		if len(first) == n {
			proxy.Freeze() // the network goes silent
			frozen = true
			return p.Deliver(context.WithoutCancel(ctx), first) // all of it, also where the heartbeats are faster
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, consume.Events(deliver)) }()
	s := p.Processor.Stats()
	must.Hold(t, "all are folded", func() bool { return s.Of(engine.Folded) >= int64(n) })
	must.Hold(t, "heartbeats give the connection up", func() bool { return c.Ready() != nil })
	proxy.Cut() // the acknowledgements under way are lost for good
	proxy.Thaw()
	must.Hold(t, "all have come again", func() bool { return s.Of(engine.Folded)+s.Of(engine.Duplicate) >= int64(2*n) })
	stored, err := j.store.Load(t.Context(), []int32{7})
	must.OK(t, err)
	t.Logf("published %d, folded %d, duplicates %d, event_count %d", n, s.Of(engine.Folded), s.Of(engine.Duplicate), stored[0].EventCount)
	if stored[0].EventCount != int64(n) {
		t.Errorf("%d events were folded twice", stored[0].EventCount-int64(n))
	}
	cancel()
	<-done
	p.Router.Drain(context.Background())
	c.Close(context.Background())
	pub.Close(context.Background())
}
