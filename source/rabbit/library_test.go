package rabbit

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/backoff"
)

// The library sends the low 16 bits of a prefetch: 65536 is 0, no limit. This is
// why larger ones are refused here.
func TestLibraryTruncatesPrefetch(t *testing.T) {
	s := shared(t)
	s.publish(s.messages(300)...)
	// want come, however slowly, and then none for a while.
	received := func(prefetch, want int) int {
		ch := s.channel()
		if err := ch.Qos(prefetch, 0, false); err != nil {
			t.Fatal(err)
		}
		deliveries, err := ch.Consume(s.names.Queue, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		for n := 0; ; n++ {
			wait := ample
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
		if _, err := NewConsumer(config, Ports{}); err == nil || !strings.Contains(err.Error(), "WORKER_PREFETCH") {
			t.Errorf("prefetch %d: %v", prefetch, err)
		}
	}
}

// With the library's recovery a delivery that is held over a reconnect
// acknowledges whatever has its tag on the new channel. This is why it is not
// used.
func TestLibraryRecoveryMixesTags(t *testing.T) {
	s := shared(t)
	s.publish(s.messages(3)...)
	conn, err := amqp.DialConfig(s.dsn, amqp.Config{
		Properties: amqp.Table{"connection_name": "recovering"},
		Recovery:   &amqp.Recovery{},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(s.names.Queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	held := map[uint64]amqp.Delivery{}
	for range 3 {
		d := <-deliveries
		held[d.DeliveryTag] = d
	}
	if n := s.broker.CloseConnections(t, s.vhost, "recovering"); n != 1 {
		t.Fatalf("%d connections closed", n)
	}
	again := map[uint64]amqp.Delivery{}
	for range 3 {
		select {
		case d := <-deliveries:
			again[d.DeliveryTag] = d
		case <-time.After(ample):
			t.Fatal("no recovery")
		}
	}
	if len(again) != 3 || again[1].DeliveryTag != 1 {
		t.Fatalf("tags after the recovery: %v", again)
	}
	// The old delivery's acknowledgement is taken for the new one's.
	if err := held[1].Ack(false); err != nil {
		t.Fatal(err)
	}
	ch.Close()
	eventually(t, "one message acknowledged through a stale tag", func() bool { return s.depth(s.names.Queue) == 2 })
}

// However long the broker was away, the next attempt comes within seconds.
func TestConnectionsAreTriedEachFewSeconds(t *testing.T) {
	timing := Timing{}.orDefaults()
	pauses := backoff.Backoff{Min: timing.BackoffMin, Max: timing.BackoffMax}
	for range 100 {
		if pause := pauses.Next(); pause > 5*time.Second {
			t.Fatalf("a pause of %v", pause)
		}
	}
}
