package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// QueueType is the kind of the worker's and the dead-letter queue.
type QueueType string

const (
	// Classic queues live on one node and know priorities.
	Classic QueueType = "classic"
	// Quorum queues are replicated over a cluster and have none.
	Quorum QueueType = "quorum"
)

// maxPriority is that of the classic queue.
const maxPriority = 10

// deliveryLimit replaces the limit of 20 that quorum queues have since 4.0: a
// lost connection counts as a delivery of every message the worker held, and a
// look into the dead-letter queue as one too. A policy can set a lower one: the
// broker goes by the lower of the two.
const deliveryLimit = 1 << 30

// Topology is what Setup declares.
type Topology struct {
	Names     Names
	QueueType QueueType
	// RetryDelays are the delays to have a queue for; see [RetryDelays].
	RetryDelays []time.Duration
}

// Validate reports every fault at once, by the names of the environment
// variables.
func (t Topology) Validate() error {
	var faults []error
	if t.QueueType != Classic && t.QueueType != Quorum {
		faults = append(faults, fmt.Errorf("RABBITMQ_QUEUE_TYPE is %q: it must be %q or %q", t.QueueType, Classic, Quorum))
	}
	for _, d := range t.RetryDelays {
		if d < time.Millisecond || d > 24*time.Hour {
			faults = append(faults, fmt.Errorf("retry delay %v: it must be from 1 ms to 24 h", d))
		}
	}
	return errors.Join(faults...)
}

// declaration is one thing to declare; name stands in the error.
type declaration struct {
	name    string
	declare func(*amqp.Channel) error
}

// Setup declares exchanges, queues and bindings on the broker behind dsn, as
// often as it is called. It changes nothing that exists: what exists with other
// arguments is a configuration error that names the queue, what the broker
// finds different and the cure; so are a wrong user, password, virtual host or
// permission. An unreachable broker is transient.
func Setup(ctx context.Context, dsn string, parts ...Topology) error {
	for _, t := range parts {
		if err := t.Validate(); err != nil {
			return err
		}
	}
	c, err := OpenChannel(ctx, dsn, "setup", "topology")
	if err != nil {
		return err
	}
	defer closeBounded(ctx, c.conn, c.socket)
	return c.During(ctx, func() error {
		for _, t := range parts {
			if err := t.declare(ctx, c.Channel); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t Topology) declare(ctx context.Context, ch *amqp.Channel) error {
	for _, d := range t.declarations() {
		if err := d.declare(ch); err != nil {
			return t.Names.Fault("declare "+d.name, cmp.Or(ctx.Err(), err))
		}
	}
	return nil
}

func (t Topology) declarations() []declaration {
	n := t.Names
	all := []declaration{
		{"exchange " + n.Exchange, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(n.Exchange, amqp.ExchangeTopic, true, false, false, false, nil)
		}},
		queue(n.Queue, t.mainArguments()),
	}
	for _, pattern := range n.Bindings {
		all = append(all, declaration{"binding of queue " + n.Queue + " to exchange " + n.Exchange, func(ch *amqp.Channel) error {
			return ch.QueueBind(n.Queue, pattern, n.Exchange, false, nil)
		}})
	}
	if n.DeadLetters != "" {
		all = append(all, queue(n.DeadLetters, t.deadLetterArguments()))
	}
	for _, d := range t.RetryDelays {
		all = append(all, queue(n.RetryQueue(d), t.retryArguments(d)))
	}
	return all
}

func queue(name string, arguments amqp.Table) declaration {
	return declaration{"queue " + name, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, arguments)
		return err
	}}
}

// mainArguments are those of the worker's queue. What a quorum queue gives up by
// a delivery limit goes to the dead letters: without that the broker drops it. A
// queue without dead letters is one that other programs consume: a message that
// expires there, or that they reject, is dropped.
func (t Topology) mainArguments() amqp.Table {
	if t.QueueType == Classic {
		return amqp.Table{"x-queue-type": string(Classic), "x-max-priority": int32(maxPriority)}
	}
	arguments := amqp.Table{"x-queue-type": string(Quorum), "x-overflow": overflow}
	if t.Names.DeadLetters != "" {
		arguments = handingOnTo(t.Names.DeadLetters)
	}
	arguments["x-delivery-limit"] = int32(deliveryLimit)
	return arguments
}

// deadLetterArguments name the type of a classic queue too: a virtual host may
// have another default.
func (t Topology) deadLetterArguments() amqp.Table {
	if t.QueueType == Classic {
		return amqp.Table{"x-queue-type": string(Classic)}
	}
	return amqp.Table{"x-queue-type": string(Quorum), "x-delivery-limit": int32(deliveryLimit)}
}

// retryArguments make a queue whose messages go back to the worker's queue
// after d.
func (t Topology) retryArguments(d time.Duration) amqp.Table {
	arguments := handingOnTo(t.Names.Queue)
	arguments["x-message-ttl"] = int32(d.Milliseconds())
	return arguments
}

// handingOnTo returns the arguments of a queue whose dead letters go to another.
// Only a quorum queue hands them on at least once, and only if it may refuse new
// messages when it is full.
func handingOnTo(queue string) amqp.Table {
	return amqp.Table{
		"x-queue-type":              string(Quorum),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": queue,
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                overflow,
	}
}

// overflow has a full queue refuse new messages, where the default would drop old ones.
const overflow = "reject-publish"

// errNotAllowed: the user may not declare queues, and so cannot compare them.
var errNotAllowed = errors.New("rabbitmq: the user has no configure permission")

// check compares the worker's and the dead-letter queue with what Setup
// declares. The protocol has no way to read arguments, but a declaration with
// other ones is refused. A missing dead-letter queue is not the check's
// affair: letters wait for it.
func (t Topology) check(conn *amqp.Connection) error {
	n := t.Names
	if err := n.compare(conn, n.Queue, t.mainArguments()); err != nil {
		return err
	}
	err := n.compare(conn, n.DeadLetters, t.deadLetterArguments())
	if engine.ReasonOf(err) == ReasonQueueMissing {
		return nil
	}
	return err
}

// compare declares a queue that exists, on a channel of its own: the broker
// closes it with a refusal.
func (n Names) compare(conn *amqp.Connection, name string, arguments amqp.Table) error {
	channel, err := conn.Channel()
	if err != nil {
		return Fault("open a channel", err)
	}
	defer func() { _ = channel.Close() }()
	if _, err := channel.QueueDeclarePassive(name, true, false, false, false, nil); err != nil {
		return n.Fault("look at queue "+name, err)
	}
	_, err = channel.QueueDeclare(name, true, false, false, false, arguments)
	if refusal, ok := errors.AsType[*amqp.Error](err); ok && refusal.Code == amqp.AccessRefused {
		return errNotAllowed
	}
	if err != nil {
		return n.Fault("compare the arguments of queue "+name, err)
	}
	return nil
}
