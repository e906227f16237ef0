package topology

import (
	"maps"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// Partitions: events that are published by slot go through [rabbit.Names.Slots] to the queue of
// the slot's partition, and others through [rabbit.Names.Exchange] to the common queue.
//
// No event may ever be in two queues: neither copy has a bound, and where one waits for
// longer than the profile keeps ids, the event is folded twice. The broker binds and
// unbinds one queue at a time. So a queue leaves before the next one takes its place, and
// what comes in between goes through the unrouted exchange to the common queue, from
// which `keyfold partition` moves it.
//
// Other programs may bind queues of theirs to the outer exchanges, and an alternate
// exchange takes only what no queue takes. So an inner exchange stands behind each outer
// one, and only keyfold's queues are bound to it:
//
//	user_events      --> user_events.inner      --> common queue, or the one queue
//	user_event_slots --> user_event_slots.inner --> partitions
//	                     (no queue) --> user_embedding_updates.unrouted --> common queue
//
// An installation of an earlier version has its queues at the outer exchanges. A queue
// to which both exchanges of a pair lead takes each message once, so the inner one can be
// put in between while events come.
//
// Rejected: to bind the new queue first and leave the second copy to the ids, which holds
// only for queues without a backlog; an alternate exchange of the outer exchanges, which
// an exchange that exists does not take, and which a queue of another program defeats.

// partitioned returns the declarations of partitions, whatever there was before. Setup may
// end behind any of them, and the next one may have another number: an event has one
// queue all the same.
func (t Config) partitioned(was state) []declaration {
	n := t.Names
	all := append(t.notes(was), append(t.partitionQueues(), t.innerExchanges(was)...)...)
	if was.partitions != t.Partitions && !was.bare {
		for slot := range engine.Slots {
			all = append(all, unbinding(n.LayoutExchange(), n.BoundKey(slot), n.LayoutExchange()))
		}
	}
	// The layout first: a setup that breaks off behind it leaves no slot with workers that
	// look at other queues.
	all = append(all, t.layout()...)
	for slot := range engine.Slots {
		former := was.former(slot, t.Partitions)
		if last := slot % max(was.partitions, 1); slices.Contains(former, last) { // the slot has no queue for a moment only
			former = append(slices.DeleteFunc(former, func(p int) bool { return p == last }), last)
		}
		for _, p := range former {
			all = append(all, unbinding(n.PartitionQueue(p), n.SlotKey(slot), n.InnerExchange(n.Slots)))
		}
		all = append(all, binding(n.PartitionQueue(slot%t.Partitions), n.SlotKey(slot), n.InnerExchange(n.Slots)),
			binding(n.LayoutExchange(), n.BoundKey(slot), n.LayoutExchange()))
	}
	all = append(all, t.moveEvents(n.Queue, n.CommonQueue())...)
	return append(all, t.innerBindings()...)
}

// unpartitioned returns the declarations that end partitions, for a broker that had some.
// The slots stay bound: what waits in a delay comes back to its partition, and so does
// what publishers publish by slot that know nothing of it yet.
func (t Config) unpartitioned(was state) []declaration {
	if !was.inner && was.partitions == 0 {
		return append(t.bindings(t.Names.Queue), t.layout()...) // an earlier version ended them
	}
	all := append(t.notes(was), append(t.unrouted(), t.innerExchanges(was)...)...)
	all = append(all, t.layout()...)
	all = append(all, t.moveEvents(t.Names.CommonQueue(), t.Names.Queue)...)
	return append(all, t.innerBindings()...)
}

// partitionQueues declares exchanges and queues, and binds none of them to events.
func (t Config) partitionQueues() []declaration {
	n := t.Names
	all := []declaration{exchange(n.Slots, amqp.ExchangeDirect), exchange(n.LayoutExchange(), amqp.ExchangeDirect)}
	for _, d := range t.RetryDelays {
		name := n.RetryExchange(d)
		arguments := handingOn(n.Slots)
		arguments["x-message-ttl"] = int32(d.Milliseconds())
		all = append(all, exchange(name, amqp.ExchangeFanout), queue(name, arguments), binding(name, "", name))
	}
	all = append(all, queue(n.LayoutExchange(), layoutArguments))
	for i := range t.Partitions {
		all = append(all, queue(n.PartitionQueue(i), t.partitionArguments()),
			binding(n.LayoutExchange(), n.DeclaredKey(i), n.LayoutExchange()))
	}
	return append(append(all, queue(n.CommonQueue(), t.partitionArguments())), t.unrouted()...)
}

// anySlot is a pattern that each slot's routing key matches, and no event's.
const anySlot = "*"

// unrouted declares the inner exchanges, and where events go whose queue is being changed.
func (t Config) unrouted() []declaration {
	n := t.Names
	all := []declaration{exchange(n.UnroutedExchange(), amqp.ExchangeTopic)}
	for _, key := range append([]string{anySlot}, n.Bindings...) {
		all = append(all, binding(n.CommonQueue(), key, n.UnroutedExchange()))
	}
	alternate := amqp.Table{"alternate-exchange": n.UnroutedExchange()}
	return append(all, exchangeWith(n.InnerExchange(n.Exchange), amqp.ExchangeTopic, alternate),
		exchangeWith(n.InnerExchange(n.Slots), amqp.ExchangeDirect, alternate))
}

// innerExchanges puts the inner exchanges between the outer ones and the queues that take
// the events now, once.
func (t Config) innerExchanges(was state) (all []declaration) {
	n := t.Names
	if !was.inner {
		all = append(t.innerOfEvents(was), t.innerOfSlots(was)...)
		all = append(all, binding(n.LayoutExchange(), rabbit.InnerKey, n.LayoutExchange()))
	}
	// An earlier version's setup binds them again.
	return append(all, append(t.unbindings(n.Queue), t.unbindings(n.CommonQueue())...)...)
}

func (t Config) innerOfEvents(was state) (all []declaration) {
	n := t.Names
	taker := n.CommonQueue()
	if was.partitions == 0 && was.oneQueue {
		taker = n.Queue
	}
	for _, pattern := range n.Bindings {
		all = append(all, binding(taker, pattern, n.InnerExchange(n.Exchange)))
	}
	return append(all, t.eventsToInner()...)
}

// innerBindings binds the inner exchanges to the outer ones where another program took
// them away: at the end, when the queues behind them are the right ones.
func (t Config) innerBindings() []declaration {
	return append(t.eventsToInner(), t.slotsToInner()...)
}

func (t Config) eventsToInner() (all []declaration) {
	for _, pattern := range t.Names.Bindings {
		all = append(all, exchangeBinding(t.Names.InnerExchange(t.Names.Exchange), pattern, t.Names.Exchange))
	}
	return all
}

func (t Config) slotsToInner() (all []declaration) {
	for slot := range engine.Slots {
		all = append(all, exchangeBinding(t.Names.InnerExchange(t.Names.Slots), t.Names.SlotKey(slot), t.Names.Slots))
	}
	return all
}

// innerOfSlots takes the slots from the queues that an earlier version bound. Where that
// version ended partitions later, it forgot their number: the slots have no queue for a
// moment, in which keyfold's publishers wait.
func (t Config) innerOfSlots(was state) (all []declaration) {
	n := t.Names
	var outer []declaration
	for slot := range engine.Slots {
		for _, p := range was.former(slot, 0) {
			outer = append(outer, unbinding(n.PartitionQueue(p), n.SlotKey(slot), n.Slots))
		}
	}
	if was.partitions == 0 {
		return append(outer, t.slotsToInner()...)
	}
	for slot := range engine.Slots {
		all = append(all, binding(n.PartitionQueue(slot%was.partitions), n.SlotKey(slot), n.InnerExchange(n.Slots)))
	}
	return append(append(all, t.slotsToInner()...), outer...)
}

// moveEvents has the events that come without a slot go to another queue.
func (t Config) moveEvents(from, to string) (all []declaration) {
	inner := t.Names.InnerExchange(t.Names.Exchange)
	for _, pattern := range t.Names.Bindings {
		all = append(all, unbinding(from, pattern, inner), binding(to, pattern, inner))
	}
	return all
}

// former returns the partitions that a slot may be bound to after setups of any number of
// partitions, without the one that it belongs to now; 0: it belongs to none.
func (was state) former(slot, partitions int) (all []int) {
	if was.bare {
		return nil
	}
	for p := 1; p <= rabbit.MaxPartitions; p++ {
		if i := slot % p; (partitions == 0 || i != slot%partitions) && !slices.Contains(all, i) {
			all = append(all, i)
		}
	}
	return all
}

// layout has the layout exchange tell the number of partitions, and no other.
func (t Config) layout() []declaration {
	n := t.Names
	all := []declaration{binding(n.LayoutExchange(), n.LayoutKey(t.Partitions), n.LayoutExchange())}
	for p := range rabbit.MaxPartitions + 1 {
		if p != t.Partitions {
			all = append(all, unbinding(n.LayoutExchange(), n.LayoutKey(p), n.LayoutExchange()))
		}
	}
	return all
}

// partitionArguments are those of a partition's queue and of the common one: those of
// the worker's queue, with one active consumer at a time.
func (t Config) partitionArguments() amqp.Table {
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
