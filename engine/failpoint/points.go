package failpoint

import "slices"

// The points of a user event's way, in their order.
const (
	Delivered = "delivered" // received, not handed over; an error ends the session
	Windowed  = "windowed"  // in its window; an error ends the worker

	BeforeLoad   = "before_load"   // profiles are about to be read
	AfterLoad    = "after_load"    // they were read; an error discards them
	Phrase       = "phrase"        // a search phrase was embedded; an error fails its events
	BeforeSwap   = "before_swap"   // profiles are about to be written; an error stands for the store's
	AfterSwap    = "after_swap"    // they were written; an error makes the answer unknown
	BeforeSettle = "before_settle" // a verdict is about to be handed back; no errors

	BeforeAck       = "before_ack"       // settled, not acknowledged; an error ends the session
	Unconfirmed     = "unconfirmed"      // copies were written, none is confirmed; an error cuts the connection
	RetryConfirmed  = "retry_confirmed"  // a retry's copy is confirmed, its original not acknowledged
	LetterConfirmed = "letter_confirmed" // the same of a dead letter
	ReplayConfirmed = "replay_confirmed" // a replayed event is confirmed, its letter not removed

	Closing = "closing" // a worker was told to stop and has not closed its windows; no errors
	Drained = "drained" // its windows are written, and not all acknowledged; no errors
)

// The points of an event's way from the common queue to its partition, before [BeforeAck].
const (
	BeforePartition    = "before_partition"    // copies are about to be published; an error stands for the broker's
	PartitionConfirmed = "partition_confirmed" // they are confirmed, their originals not settled; an error has them published again
)

// The points of a notification's way.
const (
	Posted    = "posted"    // it was posted and is not published; an error stands for the broker's
	Confirmed = "confirmed" // the broker keeps all of a request, which is not answered; an error is answered in its place

	Claimed      = "claimed"       // deferrals are leased, not handed over; an error releases them
	BeforeCommit = "before_commit" // decisions are about to be written; an error stands for the ledger's
	AfterCommit  = "after_commit"  // they were written; an error makes the answer unknown
	Dispatched   = "dispatched"    // a NOW was handed over, its mark is not queued; an error stands for the receiver's
	Marked       = "marked"        // marks of hand-overs were written; no errors

	ReportApplied = "report_applied" // delivery reports were written, and are not settled; an error has them applied again
)

// Names lists the points of user events.
var Names = []string{
	Delivered, Windowed,
	BeforeLoad, AfterLoad, Phrase, BeforeSwap, AfterSwap, BeforeSettle,
	BeforeAck, Unconfirmed, RetryConfirmed, LetterConfirmed, ReplayConfirmed,
	Closing, Drained,
}

// PartitionNames lists the points of `keyfold partition` alone.
var PartitionNames = []string{BeforePartition, PartitionConfirmed}

// NotificationNames lists the points of notifications.
var NotificationNames = []string{Posted, Confirmed, Claimed, BeforeCommit, AfterCommit, Dispatched, Marked, ReportApplied}

// TakesErrors reports whether an error can be returned at a point; the
// callers of the others take none.
func TakesErrors(name string) bool {
	return !slices.Contains([]string{BeforeSettle, Marked, Closing, Drained}, name)
}
