package consume

import (
	"sync/atomic"

	"keyfold/source/rabbit/partition"
)

// Stats counts since the start, except for the gauges. Its fields are
// read with Load.
type Stats struct {
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

	Partitions partition.Stats
}
