// Package partitioner moves events that were published without their user's slot into
// the partitions.
//
//	Partitioner  consumes the common queue, and the single queue used before partitions; used once
//	chunk        parses messages, publishes them by slot and acknowledges the originals
//
// A message is acknowledged once the broker has confirmed its copy in a partition. A
// process that ends in between leaves the original in its queue: the next one publishes
// a second copy, which the id in the user's profile absorbs.
package partitioner
