package rabbit

import (
	"maps"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// Partitions: events that are published by slot go through [Names.Slots] to the queue of
// the slot's partition. [Topology.partitioned] binds every slot to its new partition
// before it removes other bindings, so that an event always has a queue. For a moment a
// slot may have two: its events come twice, which the profiles' ids absorb.

// partitioned returns the declarations of partitions, whatever there was before.
func (t Topology) partitioned() []declaration {
	n := t.Names
	all := []declaration{exchange(n.Slots, amqp.ExchangeDirect), exchange(n.LayoutExchange(), amqp.ExchangeDirect)}
	for _, d := range t.RetryDelays {
		name := n.RetryExchange(d)
		arguments := handingOn(n.Slots)
		arguments["x-message-ttl"] = int32(d.Milliseconds())
		all = append(all, exchange(name, amqp.ExchangeFanout), queue(name, arguments), binding(name, "", name))
	}
	all = append(all, queue(n.LayoutExchange(), layoutArguments), queue(n.CommonQueue(), t.partitionArguments()))
	for i := range t.Partitions {
		all = append(all, queue(n.PartitionQueue(i), t.partitionArguments()),
			binding(n.LayoutExchange(), n.DeclaredKey(i), n.LayoutExchange()))
	}
	for slot := range engine.Slots {
		all = append(all, binding(n.PartitionQueue(slot%t.Partitions), n.SlotKey(slot), n.Slots))
	}
	// The layout first: a setup that breaks off behind it leaves no slot with workers that
	// look at other queues.
	all = append(all, t.layout()...)
	for _, b := range formerBindings(t.Partitions) {
		all = append(all, unbinding(n.PartitionQueue(b.partition), n.SlotKey(b.slot), n.Slots))
	}
	all = append(all, t.bindings(n.CommonQueue())...)
	return append(all, t.unbindings(n.Queue)...)
}

// unpartitioned returns the declarations that end partitions, once the one queue is bound.
// The slots stay bound: what waits in a delay comes back to its partition, and so does
// what publishers publish by slot that know nothing of it yet.
func (t Topology) unpartitioned() []declaration {
	return append(t.layout(), t.unbindings(t.Names.CommonQueue())...)
}

// formerBinding is a slot that a partition's queue may be bound to and should not.
type formerBinding struct{ partition, slot int }

// formerBindings returns the bindings that any other number of partitions makes.
func formerBindings(partitions int) []formerBinding {
	known := map[formerBinding]bool{}
	var all []formerBinding
	for p := 1; p <= MaxPartitions; p++ {
		for slot := range engine.Slots {
			b := formerBinding{slot % p, slot}
			if !known[b] && b.partition != slot%partitions {
				known[b] = true
				all = append(all, b)
			}
		}
	}
	return all
}

// layout has the layout exchange tell the number of partitions, and no other.
func (t Topology) layout() []declaration {
	n := t.Names
	all := []declaration{binding(n.LayoutExchange(), n.LayoutKey(t.Partitions), n.LayoutExchange())}
	for p := range MaxPartitions + 1 {
		if p != t.Partitions {
			all = append(all, unbinding(n.LayoutExchange(), n.LayoutKey(p), n.LayoutExchange()))
		}
	}
	return all
}

// partitionArguments are those of a partition's queue and of the common one: those of
// the worker's queue, with one active consumer at a time.
func (t Topology) partitionArguments() amqp.Table {
	arguments := maps.Clone(t.mainArguments())
	arguments["x-single-active-consumer"] = true
	if arguments["x-queue-type"] == string(Quorum) {
		// By default all leaders are on the node that setup is connected to.
		arguments["x-queue-leader-locator"] = "balanced"
	}
	return arguments
}

// layoutArguments are those of a queue that keeps no message. It is always quorum: a
// message to a classic queue is returned while the queue's node is down.
var layoutArguments = amqp.Table{"x-queue-type": string(Quorum), "x-message-ttl": int32(0), "x-max-length": int32(1)}
