package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyfold/engine"
)

// ReasonNotPartitioned is the reason of a consumer of partitions whose broker has none,
// or cannot share them out.
const ReasonNotPartitioned = "not_partitioned"

// layout is the partitions of a broker.
type layout struct {
	partitions int   // events are routed to the first so many
	retired    []int // further partition queues: nothing is routed to them any more
	told       bool  // a setup told their number, which may be 0
	inner      bool  // the inner exchanges are in place: open tells the slots
	open       []int // slots without the queue of their partition
}

// indexes returns those of all queues: the partitions in use, and then the retired ones.
func (l layout) indexes() []int {
	all := make([]int, l.partitions, l.partitions+len(l.retired))
	for i := range all {
		all[i] = i
	}
	return append(all, l.retired...)
}

// layoutTimeout bounds a question: during an alarm the broker answers none.
const layoutTimeout = 3 * time.Second

// facts asks the broker which facts of the layout exchange hold.
func (p *Publisher) facts(ctx context.Context, n Names, keys ...string) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	questions := make([]Message, len(keys))
	for i, key := range keys {
		questions[i] = Message{Exchange: n.LayoutExchange(), RoutingKey: key, ID: key}
	}
	answers := make([]bool, len(keys))
	for i, err := range p.Publish(ctx, questions) {
		switch {
		case err == nil:
			answers[i] = true
		case errors.Is(err, ErrNoExchange):
			return nil, n.notPartitioned(err)
		case !errors.Is(err, engine.ErrUnroutable):
			return nil, err
		}
	}
	return answers, nil
}

// notPartitioned is the fault of a broker whose setup made no partitions.
func (n Names) notPartitioned(cause error) error {
	return engine.ConfigurationError(ReasonNotPartitioned, fmt.Errorf(
		"rabbitmq: the broker has no partitions: %w; run %s with --partitions N, or leave RABBITMQ_PARTITIONS unset", cause, n.setupCommand()))
}

var errNoPartitions = errors.New("no partition queue was declared")

// layout asks for the number of partitions, and for the queues of earlier numbers.
func (p *Publisher) layout(ctx context.Context, n Names) (found layout, err error) {
	var keys []string
	for i := range MaxPartitions {
		keys = append(keys, n.LayoutKey(i+1))
	}
	for i := range MaxPartitions {
		keys = append(keys, n.DeclaredKey(i))
	}
	for slot := range engine.Slots {
		keys = append(keys, n.BoundKey(slot))
	}
	keys = append(keys, n.LayoutKey(0), innerKey)
	facts, err := p.facts(ctx, n, keys...)
	if err != nil {
		return found, err
	}
	// For a moment of a setup two numbers hold: the higher one misses no queue.
	for i, holds := range facts[:MaxPartitions] {
		if holds {
			found.partitions = i + 1
		}
	}
	found.told = found.partitions > 0 || facts[len(facts)-2]
	found.open, found.inner = openOf(facts[2*MaxPartitions:2*MaxPartitions+engine.Slots]), facts[len(facts)-1]
	for i, declared := range facts[MaxPartitions : 2*MaxPartitions] {
		if declared && i >= found.partitions {
			found.retired = append(found.retired, i)
		}
	}
	if found.partitions == 0 && found.retired == nil {
		return found, n.notPartitioned(errNoPartitions)
	}
	return found, nil
}

// layoutByQueues returns the queues there are, up to the first that is missing. It is for
// a broker that takes no messages because of an alarm: consumers are what ends that. The
// broker logs an error for a queue that is missing.
func (s *session) layoutByQueues() (found layout, err error) {
	defer s.bounded()()
	n := s.config.Names
	channel, err := s.conn.Channel()
	if err != nil {
		return found, Fault("open a channel", err)
	}
	defer func() { _ = channel.Close() }()
	for ; found.partitions < MaxPartitions; found.partitions++ {
		queue := n.PartitionQueue(found.partitions)
		_, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err == nil {
			continue
		}
		if err = n.Fault("look at queue "+queue, err); found.partitions == 0 || engine.ReasonOf(err) != ReasonQueueMissing {
			return layout{}, err
		}
		break
	}
	return found, nil
}
