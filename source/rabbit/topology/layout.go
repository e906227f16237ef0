package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/cure"
	"keyfold/source/rabbit"
)

// ReasonNotPartitioned is the reason of a consumer of partitions whose broker has none,
// or cannot share them out.
const ReasonNotPartitioned = "not_partitioned"

// Layout is the partitions of a broker.
type Layout struct {
	Partitions int   // events are routed to the first so many
	Retired    []int // further partition queues: nothing is routed to them any more
	told       bool  // a setup told their number, which may be 0
	inner      bool  // the inner exchanges are in place: open tells the slots
	open       []int // slots without the queue of their partition
}

// Indexes returns those of all queues: the partitions in use, and then the retired ones.
func (l Layout) Indexes() []int {
	all := make([]int, l.Partitions, l.Partitions+len(l.Retired))
	for i := range all {
		all[i] = i
	}
	return append(all, l.Retired...)
}

// layoutTimeout bounds a question: during an alarm the broker answers none.
const layoutTimeout = 3 * time.Second

// facts asks the broker which facts of the layout exchange hold.
func facts(ctx context.Context, p *rabbit.Publisher, n rabbit.Names, keys ...string) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	questions := make([]rabbit.Message, len(keys))
	for i, key := range keys {
		questions[i] = rabbit.Message{Exchange: n.LayoutExchange(), RoutingKey: key, ID: key}
	}
	answers := make([]bool, len(keys))
	for i, err := range p.Publish(ctx, questions) {
		switch {
		case err == nil:
			answers[i] = true
		case errors.Is(err, rabbit.ErrNoExchange):
			return nil, notPartitioned(n, err)
		case !errors.Is(err, engine.ErrUnroutable):
			return nil, err
		}
	}
	return answers, nil
}

// notPartitioned is the fault of a broker whose setup made no partitions.
func notPartitioned(n rabbit.Names, cause error) error {
	return engine.ConfigurationError(ReasonNotPartitioned, fmt.Errorf(
		"rabbitmq: the broker has no partitions: %w; run %s with --partitions N, or leave %s unset", cause, n.SetupCommand(), cure.Name("topology.Config.Partitions")))
}

var errNoPartitions = errors.New("no partition queue was declared")

// Ask asks for the number of partitions, and for the queues of earlier numbers.
func Ask(ctx context.Context, p *rabbit.Publisher, n rabbit.Names) (found Layout, err error) {
	var keys []string
	for i := range rabbit.MaxPartitions {
		keys = append(keys, n.LayoutKey(i+1))
	}
	for i := range rabbit.MaxPartitions {
		keys = append(keys, n.DeclaredKey(i))
	}
	for slot := range engine.Slots {
		keys = append(keys, n.BoundKey(slot))
	}
	keys = append(keys, n.LayoutKey(0), rabbit.InnerKey)
	facts, err := facts(ctx, p, n, keys...)
	if err != nil {
		return found, err
	}
	// For a moment of a setup two numbers hold: the higher one misses no queue.
	for i, holds := range facts[:rabbit.MaxPartitions] {
		if holds {
			found.Partitions = i + 1
		}
	}
	found.told = found.Partitions > 0 || facts[len(facts)-2]
	found.open, found.inner = openOf(facts[2*rabbit.MaxPartitions:2*rabbit.MaxPartitions+engine.Slots]), facts[len(facts)-1]
	for i, declared := range facts[rabbit.MaxPartitions : 2*rabbit.MaxPartitions] {
		if declared && i >= found.Partitions {
			found.Retired = append(found.Retired, i)
		}
	}
	if found.Partitions == 0 && found.Retired == nil {
		return found, notPartitioned(n, errNoPartitions)
	}
	return found, nil
}

// ByQueues returns the queues there are, up to the first that is missing. It is for
// a broker that takes no messages because of an alarm: consumers are what ends that. The
// broker logs an error for a queue that is missing.
func ByQueues(conn *amqp.Connection, n rabbit.Names) (found Layout, err error) {
	channel, err := conn.Channel()
	if err != nil {
		return found, rabbit.Fault("open a channel", err)
	}
	defer func() { _ = channel.Close() }()
	for ; found.Partitions < rabbit.MaxPartitions; found.Partitions++ {
		queue := n.PartitionQueue(found.Partitions)
		_, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err == nil {
			continue
		}
		if err = n.Fault("look at queue "+queue, err); found.Partitions == 0 || engine.ReasonOf(err) != rabbit.ReasonQueueMissing {
			return Layout{}, err
		}
		break
	}
	return found, nil
}
