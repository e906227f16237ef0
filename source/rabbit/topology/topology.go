package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// QueueType is the kind of the worker's and the dead-letter queue. "" is classic for the
// one queue, and quorum for partitions.
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

// Config is what [Setup] declares.
type Config struct {
	Names     rabbit.Names
	QueueType QueueType
	// RetryDelays are the delays to have a queue for; see [rabbit.RetryDelays].
	RetryDelays []time.Duration
	// Partitions is the number of queues the users' slots are spread over, up to
	// [rabbit.MaxPartitions]; 0: one queue takes all events.
	Partitions int
	// Streams is the number of streams that the users' slots are spread over; 0: there are
	// none, or they stay as they are.
	Streams int
	// StreamMaxAge is how long a stream keeps what it has; 0: [DefaultStreamMaxAge].
	StreamMaxAge time.Duration
	// NoPriorities leaves priorities out of a classic queue, which then costs the
	// broker less.
	NoPriorities bool
	// Keep has Setup keep the number of partitions that the broker has when this setup's
	// turn comes.
	Keep bool
}

// Validate reports every fault at once, by the names of the environment
// variables.
func (t Config) Validate() error {
	var faults []error
	if t.QueueType != "" && t.QueueType != Classic && t.QueueType != Quorum {
		faults = append(faults, fmt.Errorf("QueueType is %q: it must be %q or %q", t.QueueType, Classic, Quorum))
	}
	if t.Partitions < 0 || t.Partitions > rabbit.MaxPartitions {
		faults = append(faults, fmt.Errorf("%s is %d: it must be from 0 (one queue) to %d", "Partitions", t.Partitions, rabbit.MaxPartitions))
	}
	if err := t.validateStreams(); err != nil {
		faults = append(faults, err)
	}
	for _, d := range t.RetryDelays {
		if d < time.Millisecond || d > 24*time.Hour {
			faults = append(faults, fmt.Errorf("retry delay %v: it must be from 1 ms to 24 h", d))
		}
	}
	return errors.Join(faults...)
}

func (t Config) classic() bool {
	return t.QueueType == Classic || t.QueueType == "" && t.Partitions == 0
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
func Setup(ctx context.Context, dsn string, parts ...Config) error {
	for _, t := range parts {
		if err := t.Validate(); err != nil {
			return err
		}
	}
	c, err := rabbit.OpenChannel(ctx, dsn, "setup", "topology")
	if err != nil {
		return err
	}
	defer c.CloseConnection(ctx)
	return c.During(ctx, func() error {
		for _, t := range parts {
			if err := t.declare(ctx, c, dsn); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t Config) declare(ctx context.Context, c *rabbit.Channel, dsn string) error {
	if err := lock(ctx, c, t.Names); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	was, err := readState(ctx, c, t.Names, dsn)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if t.Keep && was.lost {
		return lostNotes(t.Names)
	}
	if t.Keep {
		t.Partitions = was.partitions
	}
	declarations, err := t.declarations(c, was)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if t.Streams > 0 {
		streams, err := t.streams(c)
		if err != nil {
			return cmp.Or(ctx.Err(), err)
		}
		declarations = append(declarations, streams...)
	}
	for _, d := range declarations {
		if err := d.declare(c.Channel); err != nil {
			return t.Names.Fault("declare "+d.name, cmp.Or(ctx.Err(), err))
		}
	}
	return t.verify(ctx, c, dsn)
}

// declarations returns what is to be declared, in an order in which no event is without
// a queue, or has two.
func (t Config) declarations(c *rabbit.Channel, was state) ([]declaration, error) {
	n := t.Names
	all := []declaration{exchange(n.Exchange, amqp.ExchangeTopic)}
	if n.DeadLetters != "" {
		letters, err := t.deadLetters(c)
		if err != nil {
			return nil, err
		}
		all = append(all, letters...)
	}
	if t.Partitions > 0 {
		return append(all, t.partitioned(was)...), nil
	}
	// One of an earlier version, without a net, is kept as it is.
	switch err := t.checkMain(c.Conn); {
	case engine.ReasonOf(err) == rabbit.ReasonQueueMismatch:
		return nil, err
	case err != nil:
		all = append(all, queue(n.Queue, t.netArguments()))
	}
	for _, d := range t.RetryDelays {
		all = append(all, queue(n.RetryQueue(d), t.retryArguments(d)))
	}
	if was.known {
		return append(all, t.unpartitioned(was)...), nil
	}
	return append(all, t.bindings(n.Queue)...), nil
}

func exchange(name, kind string) declaration { return exchangeWith(name, kind, nil) }

func exchangeWith(name, kind string, arguments amqp.Table) declaration {
	return declaration{"exchange " + name, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, kind, true, false, false, false, arguments)
	}}
}

// bindings bind a queue to the exchange that events are published to.
func (t Config) bindings(queue string) (all []declaration) {
	for _, pattern := range t.Names.Bindings {
		all = append(all, binding(queue, pattern, t.Names.Exchange))
	}
	return all
}

func (t Config) unbindings(queue string) (all []declaration) {
	for _, pattern := range t.Names.Bindings {
		all = append(all, unbinding(queue, pattern, t.Names.Exchange))
	}
	return all
}

func binding(queue, key, exchange string) declaration {
	return declaration{"binding of queue " + queue + " to exchange " + exchange, func(ch *amqp.Channel) error {
		return ch.QueueBind(queue, key, exchange, false, nil)
	}}
}

func exchangeBinding(to, key, exchange string) declaration {
	return declaration{"binding of exchange " + to + " to exchange " + exchange, func(ch *amqp.Channel) error {
		return ch.ExchangeBind(to, key, exchange, false, nil)
	}}
}

// unbinding removes a binding. The broker takes it where there is none, and where there is
// no such queue.
func unbinding(queue, key, exchange string) declaration {
	return declaration{"removal of the binding of queue " + queue + " to exchange " + exchange, func(ch *amqp.Channel) error {
		return ch.QueueUnbind(queue, key, exchange, nil)
	}}
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
func (t Config) mainArguments() amqp.Table {
	if t.classic() {
		arguments := amqp.Table{"x-queue-type": string(Classic)}
		if !t.NoPriorities {
			arguments["x-max-priority"] = int32(maxPriority)
		}
		return arguments
	}
	arguments := amqp.Table{"x-queue-type": string(Quorum), "x-overflow": overflow}
	if t.Names.DeadLetters != "" {
		arguments = handingOnTo(t.Names.DeadLetters)
	}
	arguments["x-delivery-limit"] = int32(deliveryLimit)
	return arguments
}

// deadLetters declares the queue of dead letters, unless it is there as either type: the
// type that the setting stands for may have changed with the number of partitions.
func (t Config) deadLetters(c *rabbit.Channel) ([]declaration, error) {
	switch err := t.checkDeadLetters(c.Conn); {
	case err == nil, errors.Is(err, ErrNotAllowed):
		return nil, nil
	case engine.ReasonOf(err) != rabbit.ReasonQueueMissing:
		return nil, err
	}
	return []declaration{queue(t.Names.DeadLetters, t.deadLetterArguments())}, nil
}

// checkDeadLetters compares the queue of dead letters with what Setup declares for a
// classic and for a quorum queue.
func (t Config) checkDeadLetters(conn *amqp.Connection) error {
	err := compare(conn, t.Names, t.Names.DeadLetters, t.deadLetterArguments())
	if engine.ReasonOf(err) != rabbit.ReasonQueueMismatch {
		return err
	}
	other := Config{QueueType: Classic}
	if t.classic() {
		other.QueueType = Quorum
	}
	if compare(conn, t.Names, t.Names.DeadLetters, other.deadLetterArguments()) == nil {
		return nil
	}
	return err
}

// deadLetterArguments name the type of a classic queue too: a virtual host may
// have another default.
func (t Config) deadLetterArguments() amqp.Table {
	if t.classic() {
		return amqp.Table{"x-queue-type": string(Classic)}
	}
	return amqp.Table{"x-queue-type": string(Quorum), "x-delivery-limit": int32(deliveryLimit)}
}

// retryArguments make a queue whose messages go back to the worker's queue
// after d.
func (t Config) retryArguments(d time.Duration) amqp.Table {
	arguments := handingOnTo(t.Names.Queue)
	arguments["x-message-ttl"] = int32(d.Milliseconds())
	return arguments
}

// handingOnTo returns the arguments of a queue whose dead letters go to another.
// Only a quorum queue hands them on at least once, and only if it may refuse new
// messages when it is full.
func handingOnTo(queue string) amqp.Table {
	arguments := handingOn("")
	arguments["x-dead-letter-routing-key"] = queue
	return arguments
}

// handingOn returns the arguments of a queue whose dead letters go to an exchange with
// the routing key that they have. One that the exchange has no queue for stays, and is
// tried again after up to 3 minutes.
func handingOn(exchange string) amqp.Table {
	return amqp.Table{
		"x-queue-type":           string(Quorum),
		"x-dead-letter-exchange": exchange,
		"x-dead-letter-strategy": "at-least-once",
		"x-overflow":             overflow,
	}
}

// overflow has a full queue refuse new messages, where the default would drop old ones.
const overflow = "reject-publish"

// ErrNotAllowed: the user may not declare queues, and so cannot compare them.
var ErrNotAllowed = errors.New("rabbitmq: the user has no configure permission")

// Check compares the worker's queue, or those of partitions, and the dead-letter
// queue with what Setup declares. The protocol has no way to read arguments, but a
// declaration with other ones is refused. A missing dead-letter queue is not the
// check's affair: letters wait for it.
func (t Config) Check(conn *amqp.Connection, partitions ...int) error {
	n := t.Names
	if len(partitions) == 0 {
		if err := t.checkMain(conn); err != nil {
			return err
		}
	}
	for _, i := range partitions {
		if err := compare(conn, n, n.PartitionQueue(i), t.partitionArguments()); err != nil {
			return err
		}
	}
	err := t.checkDeadLetters(conn)
	if engine.ReasonOf(err) == rabbit.ReasonQueueMissing {
		return nil
	}
	return err
}

// compare declares a queue that exists, on a channel of its own: the broker
// closes it with a refusal.
func compare(conn *amqp.Connection, n rabbit.Names, name string, arguments amqp.Table) error {
	channel, err := conn.Channel()
	if err != nil {
		return rabbit.Fault("open a channel", err)
	}
	defer func() { _ = channel.Close() }()
	if _, err := channel.QueueDeclarePassive(name, true, false, false, false, nil); err != nil {
		return n.Fault("look at queue "+name, err)
	}
	_, err = channel.QueueDeclare(name, true, false, false, false, arguments)
	if refusal, ok := errors.AsType[*amqp.Error](err); ok && refusal.Code == amqp.AccessRefused {
		return ErrNotAllowed
	}
	if err != nil {
		return n.Fault("compare the arguments of queue "+name, err)
	}
	return nil
}
