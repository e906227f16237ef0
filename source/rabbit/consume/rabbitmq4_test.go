package consume

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit/topology"
)

// rabbitmq4 is a virtual host of RabbitMQ 4 whose queues are quorum queues.
func rabbitmq4(t *testing.T) *site {
	t.Parallel()
	b := rabbittest.SharedVersion(t, 4)
	s := &site{sitetest.New(t, b)}
	must.OK(t, topology.Setup(t.Context(), s.DSN, topology.Config{Names: s.Names, QueueType: topology.Quorum}))
	return s
}

// RabbitMQ 4 gives a message of a quorum queue up after 20 deliveries by default. The
// limit that Setup declares keeps it.
//
// Promise(rabbitmq/delivery-limit)
func TestDefaultDeliveryLimit(t *testing.T) {
	s := rabbitmq4(t)
	ch := s.Channel()
	if _, err := ch.QueueDeclare("default limit", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	m := s.Messages(1)[0]
	s.Publish(m)
	m.Exchange, m.RoutingKey = "", "default limit"
	s.Publish(m)
	for queue, want := range map[string]int{s.Names.Queue: 25, "default limit": 21} {
		if n := deliveries(t, ch, queue, 25); n != want {
			t.Errorf("queue %q delivered its message %d times, want %d", queue, n, want)
		}
	}
}

// deliveries takes a queue's message and gives it back, again and again, and returns how
// often it came.
func deliveries(t *testing.T, ch *amqp.Channel, queue string, most int) (n int) {
	for n < most {
		var tag uint64
		sitetest.Eventually(t, "a delivery, or an empty queue", func() bool {
			d, ok, err := ch.Get(queue, false)
			must.OK(t, err)
			if tag = d.DeliveryTag; ok {
				return true
			}
			depth, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			return err == nil && depth.Messages == 0 && n > 0
		})
		if tag == 0 {
			return n
		}
		n++
		must.OK(t, ch.Nack(tag, false, true))
	}
	return n
}

// A quorum queue of RabbitMQ 4 has two classes of priority, 0 to 4 and 5 or more. Events
// of keyfold's own are in the upper one and overtake those without a priority, which are
// not kept waiting for long: it delivers two of the upper class for one of the lower.
func TestTwoClassesOfPriority(t *testing.T) {
	s := rabbitmq4(t)
	messages := s.Messages(30)
	for i := range messages {
		messages[i].Priority = 0
		if i >= 15 {
			messages[i].Priority = 5
		}
	}
	s.Publish(messages...)
	ch := s.Channel()
	upper := 0
	for range len(messages) / 2 {
		d, ok, err := ch.Get(s.Names.Queue, true)
		if err != nil || !ok {
			t.Fatalf("no message: %v", err)
		}
		if d.Priority == 5 {
			upper++
		}
	}
	if upper < 8 || upper > 12 {
		t.Errorf("%d of the first 15 messages were of the upper class, want about 10", upper)
	}
}
