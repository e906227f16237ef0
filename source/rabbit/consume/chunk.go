package consume

import (
	"context"
	"time"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// Chunk is what an application takes messages over with. Each channel of a session
// fills one of its own, on the channel's goroutine: parsing runs beside that of other
// channels.
type Chunk interface {
	// Add parses a message and keeps the result with its arrival. After an error
	// nothing is kept, and the message goes to the dead letters: the reason is
	// [engine.ReasonOf] the error. The original is the consumer's again when Add
	// returns; its body is not changed and may be kept.
	Add(*rabbit.Original, Arrival) error
	// Len returns how many messages were added since the last HandOver.
	Len() int
	// HandOver hands on what was added and empties the chunk, as [profile.Deliver]
	// does. One channel at a time calls it.
	HandOver(context.Context) error
}

// Arrival is what an application is told of a message beside its content. The fields
// are those of [profile.Delivery], and Redelivered: an earlier attempt may have done a
// part of its work.
type Arrival struct {
	FirstSeen   engine.Millis
	Arrived     time.Time
	Attempt     int
	Last        bool
	RetryDelay  time.Duration
	Redelivered bool
	Bytes       int
	Trace       *engine.Trace
	Settler     engine.Settler
}
