package topology

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
)

// What another program has declared by keyfold's names is a fault of its own, with its cure,
// and nothing is waited for.
//
// Promise(partitions/foreign-names): Setup says at once, with the cure, that an exchange or its lock's
// queue is another program's.
func TestForeignThingsOfTheSameNames(t *testing.T) {
	n := rabbit.DefaultNames()
	for name, c := range map[string]struct {
		declare      func(*amqp.Channel) error
		reason, cure string
	}{
		"an exchange of another type": {
			func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare(n.InnerExchange(n.Slots), amqp.ExchangeFanout, true, false, false, false, nil)
			}, rabbit.ReasonExchangeMismatch, "delete exchange",
		},
		"a queue of another type": {
			func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(n.CommonQueue(), true, false, false, false, amqp.Table{"x-queue-type": "classic"})
				return err
			}, rabbit.ReasonQueueMismatch, "delete_queue",
		},
		"the queue that is the lock of setups": {
			func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(n.Queue+".setup", true, false, false, false, amqp.Table{"x-queue-type": "classic"})
				return err
			}, rabbit.ReasonQueueMismatch, "delete_queue",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := unset(t)
			declareForeign(t, s.DSN, c.declare)
			err := Setup(t.Context(), s.DSN, Config{Names: n, Partitions: 2})
			if engine.ReasonOf(err) != c.reason || !strings.Contains(err.Error(), c.cure) {
				t.Errorf("%v, want the reason %s", err, c.reason)
			}
		})
	}
}

func declareForeign(t *testing.T, dsn string, declare func(*amqp.Channel) error) {
	t.Helper()
	conn, err := amqp.Dial(dsn)
	must.OK(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = declare(ch)
	}
	must.OK(t, err)
}
