// Package notifyoracle says what the decisions on notifications must be: one user at a time,
// with loops over all of the user's past decisions. It is written from the laws and
// shares with package notify the words, the types of events, policies and preferences,
// and the fingerprints of texts (package similar); not the code that decides.
//
//	decide.go   the stages in their order
//	defer.go    the instant of a deferral
//	channels.go topics, and which channels are open when
//	sends.go    what limits cover, and what they count
//	follow.go   follow-ups on other channels
//	withdraw.go what is cancelled or replaced
//	merge.go    two ids that are one person
//	digest.go   digests, and the messages that their items fill
//	state.go    what the past decisions come to
//	slots.go    what is kept for those that wait, and who gives way
//	operators.go what rules ask of texts, lists, instants and counts of a kind
//	rules.go    rules, matched by a walk over their JSON
//	clock.go    local time, minute by minute
//	compare.go  a decision against a record, the past against a stored state
//	check.go    laws that records and dispatches must keep, whatever has made them
//	check_merged.go whose records are whose, where users were merged
//
// Package history beside it makes random histories and compares each decision.
package notifyoracle

import (
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/similar"
)

// Oracle keeps users apart. It serves one goroutine.
type Oracle struct {
	users map[string]*User
	zones map[string]*zone
}

// New returns an oracle without users.
func New() *Oracle { return &Oracle{users: map[string]*User{}, zones: map[string]*zone{}} }

// User returns the user of an id.
func (o *Oracle) User(id string) *User {
	u := o.users[id]
	if u == nil {
		u = &User{oracle: o}
		o.users[id] = u
	}
	return u
}

// Forget drops all users, so that another history can begin.
func (o *Oracle) Forget() { clear(o.users) }

// User is one user: settings and every decision so far.
type User struct {
	Preferences notify.Preferences
	Erased      bool
	Past        []Decision
	oracle      *Oracle
	state       State // what the first walked of Past come to
	walked      int
}

// Set is a set as the oracle reads it: policy and settings as they are, the rules from
// their document.
type Set struct {
	Version string
	Policy  notify.Policy
	Zone    string
	Morning quiet.Clock
	Digests []quiet.Clock
	Rules   []Rule // by priority
}

// NewSet returns the oracle's view of a set that was compiled from a document.
func NewSet(set *notify.Set, document []byte) (*Set, error) {
	rules, err := readRules(document)
	if err != nil {
		return nil, err
	}
	return &Set{
		Version: set.Version, Policy: set.Policy, Rules: rules,
		Zone: set.Local.Zone.Name(), Morning: set.Local.Morning, Digests: set.Local.Digests,
	}, nil
}

// Event is an event with its metadata as encoding/json reads it.
type Event struct {
	*notify.Notification
	Object map[string]any
}

// ReadEvent returns the event of a notification, with the metadata of its body.
func ReadEvent(n *notify.Notification) (Event, error) {
	var body struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(n.Body, &body); err != nil {
		return Event{}, fmt.Errorf("event %v: its body: %w", n.ID, err)
	}
	object, err := ReadObject(body.Metadata)
	return Event{Notification: n, Object: object}, err
}

// ReadObject reads a JSON object; its numbers become *big.Rat beside their text.
func ReadObject(text []byte) (map[string]any, error) {
	if len(text) == 0 {
		return nil, nil
	}
	v, err := readValue(text)
	if err != nil {
		return nil, err
	}
	object, _ := v.(map[string]any)
	return object, nil
}

// Number is a number with its text.
type Number struct {
	Text string
	*big.Rat
}

// Decision is what is expected of one turn of an event.
type Decision struct {
	EventID   uuid.UUID
	Type      notify.EventType
	Print     similar.Print
	Turn      int
	Version   string // of the set
	DecidedAt engine.Millis
	Horizon   engine.Millis

	Outcome     notify.Outcome
	Reasons     []string
	RuleID      uuid.UUID
	Forced      bool
	DeferUntil  engine.Millis
	Spent       []uuid.UUID
	DigestKey   string
	Slot        engine.Millis
	DigestID    uuid.UUID
	DuplicateOf uuid.UUID
	Measure     string
	Channels    []notify.Channel
	Scored      bool
	Score       float64
	Zone        string // in force
	Counts      [3]int
	Caps        notify.Caps
	Until       map[string]engine.Millis // of a LATER: when each of its reasons ends
	Waiting     int                      // slots in its way
	Reserved    bool                     // of a LATER: it has a slot
	Moved       []notify.Move            // slots whose places it took
	Send        Send                     // what limits ask of it: with the channels of NOW, or of a slot
	Topic       string
	Held        []notify.Channel // of NOW: allowed channels that it does not go out on
	Limits      []LimitSeen      // that cover it
	Reported    notify.Reported  // of the steps before a follow-up
	FollowUps   []notify.FollowUp
	Shown       *Shown // of the first item of a message
}

// Shown is how many of its items a digest's message shows.
type Shown struct {
	Key        string
	Show, More int
}

// LimitSeen is what a decision saw of a limit.
type LimitSeen struct {
	Name  string
	Count int           // sends within its span
	Frees engine.Millis // 0: at once
}
