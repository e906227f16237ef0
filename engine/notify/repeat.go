package notify

import "github.com/google/uuid"

// Posting names an event that was posted.
type Posting struct {
	EventID uuid.UUID
	Content uuid.UUID // see [ContentID]
	User    string
}

// Repeat is what a memory of the events that the broker has confirmed says of one of
// them. It may be lost at any time: the ledger alone knows what was decided.
type Repeat uint8

// Answers.
const (
	RepeatUnknown Repeat = iota // the ledger is to be asked
	RepeatKnown                 // the broker has confirmed this event, with this content
	RepeatNew                   // it is in no memory that is left
)
