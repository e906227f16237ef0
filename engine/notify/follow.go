package notify

import (
	"strconv"

	"github.com/google/uuid"

	"keyfold/engine"
)

// Follows makes an event a follow-up: the content of another one, its root, that was sent
// before on other channels. It has an event_id of its own ([FollowID]) and is decided by
// itself.
type Follows struct {
	Root uuid.UUID
	Step int // from 1 on
	// Unless is what ends it where the root or an earlier step has been reported so.
	Unless Unless
	Reason string       // of its NOW
	Then   []Escalation // steps that follow it
}

// Escalation is a step of a rule's chain of channels.
type Escalation struct {
	After    engine.Millis // the NOW before it
	Channels []Channel
	Unless   Unless
}

// Unless is what ends a chain of channels.
type Unless uint8

// The ends of chains.
const (
	UnlessRead      Unless = iota + 1 // it was opened, clicked or dismissed
	UnlessDelivered                   // it was delivered, or read
	UnlessNever                       // nothing
	unlessCount     = iota + 1
)

var unlessNames = [unlessCount]string{"", "read", "delivered", "never"}

// String returns the name in JSON.
func (u Unless) String() string { return nameOf(unlessNames[:], int(u)) }

// MaxSteps bounds a chain of channels.
const MaxSteps = 4

// follows is the name space of ids of follow-ups.
var follows = uuid.MustParse("6b657966-6f6c-4d00-8000-f0110115e900")

// FollowID returns the event_id of a step that follows an event.
func FollowID(root uuid.UUID, step int) uuid.UUID {
	return uuid.NewSHA1(follows, append(root[:], strconv.Itoa(step)...))
}

// Reported is what reports have said of an event: a set of bits.
type Reported uint8

// What was reported.
const (
	WasDelivered Reported = 1 << iota
	WasOpened
	WasClicked
	WasDismissed
	wasRead = WasOpened | WasClicked | WasDismissed
)

// ends reports whether what was reported ends a chain.
func (u Unless) ends(r Reported) bool {
	return u == UnlessRead && r&wasRead != 0 || u == UnlessDelivered && r != 0
}
