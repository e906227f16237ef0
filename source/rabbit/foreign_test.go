package rabbit

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// What another program has declared by keyfold's names is a fault of its own, with its cure,
// and nothing is waited for.
func TestForeignThingsOfTheSameNames(t *testing.T) {
	n := DefaultNames()
	for name, c := range map[string]struct {
		declare      func(*amqp.Channel) error
		reason, cure string
	}{
		"an exchange of another type": {
			func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare(n.InnerExchange(n.Slots), amqp.ExchangeFanout, true, false, false, false, nil)
			}, ReasonExchangeMismatch, "delete exchange",
		},
		"a queue of another type": {
			func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(n.CommonQueue(), true, false, false, false, amqp.Table{"x-queue-type": "classic"})
				return err
			}, ReasonQueueMismatch, "delete_queue",
		},
		"the queue that is the lock of setups": {
			func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(n.Queue+".setup", true, false, false, false, amqp.Table{"x-queue-type": "classic"})
				return err
			}, ReasonQueueMismatch, "delete_queue",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := sharedBroker(t)
			s := &site{t: t, broker: b, vhost: b.VHost(t)}
			s.dsn = b.DSN(s.vhost)
			declareForeign(t, s.dsn, c.declare)
			err := Setup(t.Context(), s.dsn, Topology{Names: n, Partitions: 2})
			if engine.ReasonOf(err) != c.reason || !strings.Contains(err.Error(), c.cure) {
				t.Errorf("%v, want the reason %s", err, c.reason)
			}
		})
	}
}

func declareForeign(t *testing.T, dsn string, declare func(*amqp.Channel) error) {
	t.Helper()
	conn, err := amqp.Dial(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = declare(ch)
	}
	if err != nil {
		t.Fatal(err)
	}
}
