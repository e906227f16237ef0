package topology

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/cure"
	"keyfold/source/rabbit"
)

// Streams: events that are published to the exchange of streams, by slot, go to the stream of
// the slot's partition. The worker's queue stays as it is: it takes events that are published without a slot, and the
// copies of streams' events that wait for a retry.
//
// Another number of streams is another generation, whose streams have other names. Its
// bindings are made before those of the generation before are taken away: what comes in
// between is in two streams, and its id tells a worker so. Workers read all generations
// until the older ones are deleted.

// DefaultStreamMaxAge is how long a stream keeps what it has.
const DefaultStreamMaxAge = 7 * 24 * time.Hour

// maxGenerations is how many generations are looked for.
const maxGenerations = 32

// ReasonGenerations: the number of streams was changed too often.
const ReasonGenerations = "too_many_generations"

func (t Config) validateStreams() error {
	var faults engine.Faults
	n := t.Streams
	faults.If(n < 0 || n > rabbit.MaxStreams || n&(n-1) != 0, "%s is %d: it must be a power of two up to %d, or 0 for none", cure.Name("topology.Config.Streams"), n, rabbit.MaxStreams)
	faults.If(n > 0 && t.Partitions > 0, "%s is %d and %s is %d: events by slot go to streams or to partitions, so set one of them to 0",
		cure.Name("topology.Config.Streams"), n, cure.Name("topology.Config.Partitions"), t.Partitions)
	faults.If(t.StreamMaxAge < 0, "%s is %v: it must not be negative", cure.Name("topology.Config.StreamMaxAge"), t.StreamMaxAge)
	return faults.Err()
}

// streams returns the declarations of the streams of a generation.
func (t Config) streams(c *rabbit.Channel) ([]declaration, error) {
	n := t.Names
	last, err := lastGeneration(c, n)
	if err != nil {
		return nil, err
	}
	generation := max(last.Generation, 1)
	if last.Generation > 0 && last.Partition != t.Streams {
		generation++
	}
	if generation > maxGenerations {
		return nil, engine.ConfigurationError(ReasonGenerations, fmt.Errorf("rabbitmq: the number of streams was changed %d times: keep %d", maxGenerations, last.Partition))
	}
	all := []declaration{exchange(n.StreamExchange(), amqp.ExchangeDirect)}
	super := n.StreamBase() + fmt.Sprintf(".%d", generation)
	all = append(all, exchangeWith(super, amqp.ExchangeDirect, amqp.Table{"x-super-stream": true}))
	for i := t.Streams - 1; i >= 0; i-- { // the first one last: with it the generation is complete
		name := n.StreamQueue(rabbit.Stream{Generation: generation, Partition: i})
		all = append(all, queue(name, t.streamArguments()), superBinding(name, super, i))
	}
	for slot := range engine.Slots {
		all = append(all, binding(n.StreamQueue(rabbit.Stream{Generation: generation, Partition: slot % t.Streams}), n.SlotKey(slot), n.StreamExchange()))
	}
	if last.Generation > 0 && generation != last.Generation {
		for slot := range engine.Slots {
			all = append(all, unbinding(n.StreamQueue(rabbit.Stream{Generation: last.Generation, Partition: slot % last.Partition}), n.SlotKey(slot), n.StreamExchange()))
		}
	}
	return all, nil
}

// superBinding makes a stream a partition of the super stream that other clients know.
func superBinding(queue, exchange string, partition int) declaration {
	return declaration{"binding of stream " + queue + " to exchange " + exchange, func(ch *amqp.Channel) error {
		return ch.QueueBind(queue, fmt.Sprint(partition), exchange, false, amqp.Table{"x-stream-partition-order": int32(partition)})
	}}
}

// lastGeneration returns the newest generation that the broker has, and the number of its
// streams in place of a partition; 0: it has none.
func lastGeneration(c *rabbit.Channel, n rabbit.Names) (last rabbit.Stream, err error) {
	there := func(s rabbit.Stream) (bool, error) {
		return c.Exists(func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(n.StreamQueue(s), true, false, false, false, nil)
			return err
		})
	}
	for last.Generation = maxGenerations; last.Generation > 0; last.Generation-- {
		found, err := there(rabbit.Stream{Generation: last.Generation})
		if err != nil {
			return last, rabbit.Fault("look at the streams", err)
		}
		if found {
			break
		}
	}
	for found := last.Generation > 0; found && last.Partition < rabbit.MaxStreams; {
		if found, err = there(rabbit.Stream{Generation: last.Generation, Partition: last.Partition}); err != nil {
			return last, rabbit.Fault("look at the streams", err)
		}
		if found {
			last.Partition++
		}
	}
	return last, nil
}

// Streams returns the names of the newest generation's streams.
func Streams(ctx context.Context, dsn string, n rabbit.Names) (streams []string, err error) {
	c, err := rabbit.OpenChannel(ctx, dsn, "tool", "streams")
	if err != nil {
		return nil, err
	}
	defer c.CloseConnection(ctx)
	err = c.During(ctx, func() error {
		last, err := lastGeneration(c, n)
		for i := range last.Partition {
			streams = append(streams, n.StreamQueue(rabbit.Stream{Generation: last.Generation, Partition: i}))
		}
		return err
	})
	return streams, err
}

// streamArguments bound a stream by age alone: a full disk blocks publishers and is seen, and
// events that a bound by bytes takes away are not.
func (t Config) streamArguments() amqp.Table {
	age := t.StreamMaxAge
	if age == 0 {
		age = DefaultStreamMaxAge
	}
	return amqp.Table{"x-queue-type": "stream", "x-max-age": fmt.Sprintf("%ds", int64(age/time.Second)), "x-queue-leader-locator": "balanced"}
}
