package consume

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sitetest"
)

// The library sends the low 16 bits of a prefetch: 65536 is 0, no limit. This is
// why larger ones are refused here.
//
// Promise(rabbitmq/prefetch-65536): A prefetch of 65,536, which means none, is refused.
func TestLibraryTruncatesPrefetch(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(300)...)
	// want come, however slowly, and then none for a while.
	received := func(prefetch, want int) int {
		ch := s.Channel()
		must.OK(t, ch.Qos(prefetch, 0, false))
		deliveries, err := ch.Consume(s.Names.Queue, "", false, false, false, false, nil)
		must.OK(t, err)
		defer ch.Close()
		for n := 0; ; n++ {
			wait := sitetest.Ample
			if n >= want {
				wait = 500 * time.Millisecond
			}
			select {
			case <-deliveries:
			case <-time.After(wait):
				return n
			}
		}
	}
	if n := received(1<<16+7, 7); n != 7 {
		t.Errorf("a prefetch of 65543 lets %d through, 7 with the low 16 bits", n)
	}
	if n := received(1<<16, 300); n != 300 {
		t.Errorf("a prefetch of 65536 lets %d of 300 through", n)
	}
	for _, prefetch := range []int{0, -1, MaxPrefetch + 1} {
		config := s.config()
		config.Prefetch = prefetch
		if _, err := New(config, Ports{}); err == nil || !strings.Contains(err.Error(), "Prefetch is") {
			t.Errorf("prefetch %d: %v", prefetch, err)
		}
	}
}

// With the library's recovery a delivery that is held over a reconnect
// acknowledges whatever has its tag on the new channel. This is why it is not
// used.
//
// Promise(rabbitmq/generations): The library's own recovery is not used; each delivery carries its
// connection's generation, and old verdicts are dropped.
func TestLibraryRecoveryMixesTags(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(3)...)
	conn, err := amqp.DialConfig(s.DSN, amqp.Config{
		Properties: amqp.Table{"connection_name": "recovering"},
		Recovery:   &amqp.Recovery{},
	})
	must.OK(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must.OK(t, err)
	deliveries, err := ch.Consume(s.Names.Queue, "", false, false, false, false, nil)
	must.OK(t, err)
	held := map[uint64]amqp.Delivery{}
	for range 3 {
		d := <-deliveries
		held[d.DeliveryTag] = d
	}
	if n := s.Broker.CloseConnections(t, s.VHost, "recovering"); n != 1 {
		t.Fatalf("%d connections closed", n)
	}
	again := map[uint64]amqp.Delivery{}
	for range 3 {
		select {
		case d := <-deliveries:
			again[d.DeliveryTag] = d
		case <-time.After(sitetest.Ample):
			t.Fatal("no recovery")
		}
	}
	if len(again) != 3 || again[1].DeliveryTag != 1 {
		t.Fatalf("tags after the recovery: %v", again)
	}
	// The old delivery's acknowledgement is taken for the new one's.
	must.OK(t, held[1].Ack(false))
	ch.Close()
	sitetest.Eventually(t, "one message acknowledged through a stale tag", func() bool { return s.Depth(s.Names.Queue) == 2 })
}
