package notify

import (
	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/similar"
)

// MaxTurn is the number of the last turn: an event is deferred at most twice.
const MaxTurn = 2

// Turn says which decision of an event is made.
type Turn struct {
	Number int           // 0 on arrival, one more after each deferral
	Spent  []uuid.UUID   // rules that have deferred the event
	Due    engine.Millis // the time of its deferral, as it was moved; 0 on arrival
	// Reported is what was reported of the steps before a follow-up.
	Reported Reported
	// Takes is the place of what the event replaces; nil: none.
	Takes *Place
}

// Score is the cosine of the event's text and the user's taste, read before a
// decision.
type Score struct {
	Cosine float64 `json:"cosine,omitzero"`
	Known  bool    `json:"known,omitzero"` // false: the term drops out
	Skip   Skip    `json:"skip,omitzero"`  // why it is not known; "": taste was not asked for
	// Habit is how the user responds to notifications of the type; zero: nothing is known.
	Habit Habit `json:"habit,omitzero"`
}

// Skip is why an event has no taste term.
type Skip string

// Reasons for an absent taste term.
const (
	SkipText          Skip = "text_kept"          // the policy keeps texts of this type inside
	SkipRefused       Skip = "text_refused"       // the embedding API does not take this text
	SkipNoProfile     Skip = "no_profile"         // no user of this number has a profile with events in it
	SkipOtherProfile  Skip = "profile_unfit"      // another model, dimension or history made it
	SkipEmbeddingLate Skip = "embedding_late"     // no vector of the text in time
	SkipEmbeddingAway Skip = "embedding_away"     // the API failed, or is left alone after failures
	SkipProfilesLate  Skip = "profile_store_late" // no answer in time
	SkipProfilesAway  Skip = "profile_store_away" // the store failed, or is left alone after failures
)

// Skips are all reasons for an absent taste term.
var Skips = [...]Skip{
	SkipText, SkipRefused, SkipNoProfile, SkipOtherProfile,
	SkipEmbeddingLate, SkipEmbeddingAway, SkipProfilesLate, SkipProfilesAway,
}

// Record is the decision of one turn. [Decide] makes all of it but DecisionID and
// Seq, which the flush gives.
type Record struct {
	DecisionID uuid.UUID
	Seq        int64 // the user's version that this decision made
	EventID    uuid.UUID
	UserID     string
	Type       EventType
	Source     string
	Print      similar.Print

	Outcome     Outcome
	Reasons     []string
	RuleID      uuid.UUID // zero: no rule matched
	RuleVersion string    // of the set
	Turn        int
	DecidedAt   engine.Millis
	DeferUntil  engine.Millis // of LATER; 0 otherwise
	Spent       []uuid.UUID   // rules that have deferred the event, this turn's included
	DigestKey   string        // of a LATER that waits for a digest
	Slot        engine.Millis // of such: the digest's instant
	DigestID    uuid.UUID     // of a NOW that was sent in a digest
	DuplicateOf uuid.UUID     // the event that it repeats
	Channels    []Channel     // of NOW: where it may go, preferred first
	Scored      bool
	Score       float64
	Facts       Facts
}

// Facts is all that a decision read besides the event and the set: from it, the
// record can be explained and decided again.
type Facts struct {
	Preferences Preferences      `json:"preferences,omitzero"` // with the zone in force: metadata.timezone and the settings
	Counts      [3]int           `json:"counts,omitzero"`
	Caps        Caps             `json:"caps,omitzero"`         // in force; 0: the decision ended before it looked
	Frees       [3]engine.Millis `json:"frees,omitzero"`        // when each cap lets one through; 0: at once
	Waiting     int              `json:"waiting,omitzero"`      // reservations of other events that count
	CooldownEnd engine.Millis    `json:"cooldown_end,omitzero"` // 0: none
	QuietEnd    engine.Millis    `json:"quiet_end,omitzero"`    // 0: not in quiet hours
	RuleUntil   engine.Millis    `json:"rule_until,omitzero"`   // the instant of the rule's strategy; 0: none
	RuleName    string           `json:"rule_name,omitzero"`
	Near        []string         `json:"near,omitempty"`  // the first rules that nearly matched: what each asked for
	Forced      bool             `json:"forced,omitzero"` // a rule said NOW and nothing held it
	Strategy    Strategy         `json:"strategy,omitzero"`
	Measure     string           `json:"measure,omitzero"` // what found a near duplicate: "simhash", "words"
	Parts       Parts            `json:"parts,omitzero"`   // of the score
	Taste       Score            `json:"taste,omitzero"`
	TasteUsed   bool             `json:"taste_used,omitzero"` // it is a part of the score
	Response    float64          `json:"response,omitzero"`   // what it adds to the score
	Reserved    bool             `json:"reserved,omitzero"`   // of LATER: a send at DeferUntil is kept for it
	Moved       []Move           `json:"moved,omitempty"`     // reservations whose places it took
	Due         engine.Millis    `json:"due,omitzero"`        // [Turn.Due]
	Sent        Sent             `json:"sent,omitzero"`       // what limits count of it: its keys, and of LATER its channels
	Limits      []LimitFact      `json:"limits,omitempty"`    // that cover the event
	Held        []Channel        `json:"held,omitempty"`      // channels that quiet hours or limits hold
	Topic       string           `json:"topic,omitzero"`
	SnoozedTo   engine.Millis    `json:"snoozed_to,omitzero"`  // 0: not snoozed
	Root        uuid.UUID        `json:"root,omitzero"`        // of a follow-up
	Step        int              `json:"step,omitzero"`        // of a follow-up, from 1 on
	Reported    Reported         `json:"reported,omitzero"`    // of the steps before a follow-up
	FollowUps   []FollowUp       `json:"follow_ups,omitempty"` // of NOW
	Takes       Place            `json:"takes,omitzero"`       // the place of what it replaces
	Digest      DigestMessage    `json:"digest,omitzero"`      // of the first item of a digest's message: what it says
	Horizon     engine.Millis    `json:"horizon"`
	Tzdata      string           `json:"tzdata,omitzero"` // version of the zone data
}

// LimitFact is what a decision saw of a limit that covers the event.
type LimitFact struct {
	Name  string        `json:"name"`
	Count int           `json:"count"` // sends within the limit's span
	Most  int           `json:"most"`
	Frees engine.Millis `json:"frees,omitzero"` // when it lets one through; 0: at once
	// Channel is of a limit of channels the one that it holds; 0: all.
	Channels []Channel `json:"channels,omitempty"`
}

// FollowUp is a follow-up that a NOW leaves.
type FollowUp struct {
	EventID  uuid.UUID     `json:"event_id"`
	Step     int           `json:"step"`
	Channels []Channel     `json:"channels"`
	At       engine.Millis `json:"at"`
	Unless   Unless        `json:"unless"`
	Reason   string        `json:"reason"`
	Digest   string        `json:"digest,omitzero"` // the key of the digest that it waits for
	Then     []Escalation  `json:"then,omitempty"`  // the steps that follow it
}

// Place is where a notification waits.
type Place struct {
	DueAt     engine.Millis `json:"due_at"`
	DigestKey string        `json:"digest_key,omitzero"`
	Slot      engine.Millis `json:"slot,omitzero"`
	Reserved  bool          `json:"reserved,omitzero"`
}
