package rabbit

import (
	"fmt"
	"strconv"
	"time"

	"keyfold/engine"
)

// MaxPartitions is the largest number of partitions: each takes one slot at least.
const MaxPartitions = engine.Slots

// SlotKey returns the routing key of the events of a slot: "00" to "63".
func (n Names) SlotKey(slot int) string { return fmt.Sprintf("%02d", slot) }

// PartitionQueue returns the queue of partition i, which takes the events of every
// slot s with s % P = i, where P is the number of partitions.
func (n Names) PartitionQueue(i int) string { return fmt.Sprintf("%s.%02d", n.Queue, i) }

// CommonQueue returns the queue of events that were published without a slot.
func (n Names) CommonQueue() string { return n.Queue + ".common" }

// RetryExchange returns the fanout exchange of the events that came by slot and wait
// for a delay. Its queue has the same name, and gives them back to Slots with the
// routing key they have, which is their slot's.
func (n Names) RetryExchange(delay time.Duration) string {
	return n.Queue + ".slots.retry." + strconv.FormatInt(delay.Milliseconds(), 10)
}

// BySlot reports whether a message came by its user's slot.
func (n Names) BySlot(o *Original) bool { return n.Slots != "" && o.Exchange == n.Slots }

// InnerExchange returns the exchange between one that events are published to and
// keyfold's queues.
func (n Names) InnerExchange(outer string) string { return outer + ".inner" }

// UnroutedExchange returns the exchange that takes events whose queue is being changed.
func (n Names) UnroutedExchange() string { return n.Queue + ".unrouted" }

// LayoutExchange returns the direct exchange that tells how the broker is set up: a
// mandatory message to it is returned where the fact of its routing key does not hold.
// The queue of the same name takes the messages of the others, and drops them at once.
func (n Names) LayoutExchange() string { return n.Queue + ".layout" }

// LayoutKey returns the routing key of the fact that the number of partitions is p: 0
// where it was set back to one queue.
func (n Names) LayoutKey(p int) string { return "p" + strconv.Itoa(p) }

// DeclaredKey returns the routing key of the fact that the queue of partition i was
// declared, also where i is not below the number of partitions any more. Where the
// queue was deleted since, the next setup withdraws it.
func (n Names) DeclaredKey(i int) string { return fmt.Sprintf("q%02d", i) }

// InnerKey is the routing key of the fact that the inner exchanges are in place.
const InnerKey = "inner"

// BoundKey returns the routing key of the fact that a slot has the queue of its partition,
// by the number that the layout exchange tells.
func (n Names) BoundKey(slot int) string { return fmt.Sprintf("s%02d", slot) }
