package rabbit

import "sync/atomic"

// ConsumerStats counts since the start, except for the gauges. Its fields are
// read with Load.
type ConsumerStats struct {
	Connects      atomic.Int64 // sessions opened
	Connected     atomic.Int64 // gauge: 1 while a session consumes or is paused
	Delivered     atomic.Int64 // messages received
	Malformed     atomic.Int64 // of those, refused by the parser
	Unacked       atomic.Int64 // gauge: received in the live session and not acknowledged
	Acked         atomic.Int64 // messages acknowledged
	AckFrames     atomic.Int64 // acknowledgements sent; one may cover many messages
	Overdue       atomic.Int64 // sessions ended as a message was not settled within its lease
	Stale         atomic.Int64 // settlements dropped: their session had ended
	Held          atomic.Int64 // verdicts Unsettled
	Retried       atomic.Int64 // verdicts Retry that led to another attempt
	RetriedEvents atomic.Int64 // events at the first of these
	Parked        atomic.Int64 // verdicts Park: no attempt was used
	Exhausted     atomic.Int64 // verdicts Retry that led to a dead letter
	Redelivered   atomic.Int64 // messages the broker had delivered before
	DeadLetters   atomic.Int64 // copies confirmed in the dead-letter queue
	Cancelled     atomic.Int64 // consumers cancelled by the broker

	Partitions PartitionStats
}

// PartitionStats is of a consumer of partitions.
type PartitionStats struct {
	Events  [MaxPartitions]atomic.Int64 // received, by partition
	Known   [MaxPartitions]atomic.Bool  // subscribed to at least once
	Owned   atomic.Int64                // gauge: partitions that are this worker's
	Workers atomic.Int64                // gauge: workers that share them
	Moves   atomic.Int64                // partitions taken over or given up
}

// DelayStats counts attempts since the start, except for the gauge. Its fields
// are read with Load.
type DelayStats struct {
	Waiting   atomic.Int64 // gauge: not yet confirmed in a delay queue
	Replaced  atomic.Int64 // confirmed there
	InProcess atomic.Int64 // no delay queue took them: they waited here
	Failed    atomic.Int64 // groups to be published again
}

// PublisherStats counts since the start, except for the gauge. Its fields are
// read with Load.
type PublisherStats struct {
	Connects  atomic.Int64
	Published atomic.Int64 // messages written
	Confirmed atomic.Int64 // taken over by the broker
	Returned  atomic.Int64 // no queue wanted them
	Nacked    atomic.Int64 // refused by the broker
	Unknown   atomic.Int64 // neither confirmed nor refused in time
	Blocked   atomic.Int64 // gauge: 1 while an alarm stops publishing
}
