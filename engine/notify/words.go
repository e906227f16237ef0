package notify

import "slices"

// EventType is the category of a notification.
type EventType uint8

// The types, in the order of the specification.
const (
	Message EventType = iota + 1
	Reminder
	Alert
	Promo
	System
	Update
	Security
	Digest
	typeCount = iota + 1
)

var typeNames = [typeCount]string{"", "MESSAGE", "REMINDER", "ALERT", "PROMO", "SYSTEM", "UPDATE", "SECURITY", "DIGEST"}

// EventTypes lists every type.
var EventTypes = []EventType{Message, Reminder, Alert, Promo, System, Update, Security, Digest}

// String returns the type's name in JSON, "" for none.
func (t EventType) String() string { return nameOf(typeNames[:], int(t)) }

// ParseEventType returns the type of a name, 0 where there is none.
func ParseEventType(name string) EventType { return EventType(indexOf(typeNames[:], name)) }

// Urgent reports whether the type is of the urgent class, which is decided before
// the bulk class where one user's events are decided together.
func (t EventType) Urgent() bool {
	return t == Security || t == Alert || t == System || t == Message
}

// Hint is the caller's own view of an event's urgency.
type Hint uint8

// The hints; 0 is none.
const (
	Critical Hint = iota + 1
	High
	Medium
	Low
	hintCount = iota + 1
)

var hintNames = [hintCount]string{"", "CRITICAL", "HIGH", "MEDIUM", "LOW"}

// String returns the hint's name in JSON, "" for none.
func (h Hint) String() string { return nameOf(hintNames[:], int(h)) }

// ParseHint returns the hint of a name, 0 where there is none.
func ParseHint(name string) Hint { return Hint(indexOf(hintNames[:], name)) }

// Channel is a way to a user.
type Channel uint8

// The channels.
const (
	Push Channel = iota + 1
	Email
	SMS
	InApp
	channelCount = iota + 1
)

var channelNames = [channelCount]string{"", "push", "email", "sms", "in_app"}

// Channels lists every channel.
var Channels = []Channel{Push, Email, SMS, InApp}

// String returns the channel's name in JSON, "" for none.
func (c Channel) String() string { return nameOf(channelNames[:], int(c)) }

// ParseChannel returns the channel of a name, 0 where there is none.
func ParseChannel(name string) Channel { return Channel(indexOf(channelNames[:], name)) }

// Outcome is what was decided of an event.
type Outcome uint8

// The outcomes.
const (
	Now   Outcome = iota + 1 // send it
	Later                    // decide it again at Record.DeferUntil
	Never                    // do not send it
	// Postponed: the event has used its deferrals, or is of a digest, and the user
	// has quiet hours. Nothing is recorded: only the deferral's time moves to
	// Record.DeferUntil.
	Postponed
	outcomeCount = iota + 1
)

var outcomeNames = [outcomeCount]string{"", "NOW", "LATER", "NEVER", "POSTPONED"}

// String returns the outcome's name in JSON, "" for none.
func (o Outcome) String() string { return nameOf(outcomeNames[:], int(o)) }

// ParseOutcome returns the outcome of a name, 0 where there is none.
func ParseOutcome(name string) Outcome { return Outcome(indexOf(outcomeNames[:], name)) }

// Strategy says until when a rule defers an event.
type Strategy uint8

// The strategies.
const (
	FixedDelay15m Strategy = iota + 1 // now and 15 minutes
	NextHour                          // the next full hour of the user's clock
	NextMorning                       // the next morning of the user's clock
	NextQuietEnd                      // the end of the quiet span that is, else of the next one; without any as NextMorning
	DigestWindow                      // the next slot for digests
	LikelyHour                        // the hour at which the user is likely to open, within the rule's bound
	strategyCount = iota + 1
)

var strategyNames = [strategyCount]string{
	"", "fixed_delay_15m", "next_hour", "next_morning", "next_quiet_end", "digest_window", "likely_hour",
}

// String returns the strategy's name in JSON, "" for none.
func (s Strategy) String() string { return nameOf(strategyNames[:], int(s)) }

// ParseStrategy returns the strategy of a name, 0 where there is none.
func ParseStrategy(name string) Strategy { return Strategy(indexOf(strategyNames[:], name)) }

// Reasons of decisions. Rules have reasons of their own, which are none of these.
const (
	ReasonUserErased    = "USER_ERASED"
	ReasonExpired       = "EXPIRED"
	ReasonMuted         = "MUTED"
	ReasonNoChannel     = "NO_CHANNEL"
	ReasonDuplicate     = "DUPLICATE"
	ReasonNearDuplicate = "NEAR_DUPLICATE"
	ReasonCap5M         = "FATIGUE_CAP_5M"
	ReasonCap1H         = "FATIGUE_CAP_1H"
	ReasonCap24H        = "FATIGUE_CAP_24H"
	ReasonCooldown      = "COOLDOWN"
	ReasonQuietHours    = "QUIET_HOURS"
	ReasonScoreHigh     = "SCORE_HIGH"
	ReasonScoreDigest   = "SCORE_DIGEST"
	ReasonScoreLow      = "SCORE_LOW"
	ReasonDeferLimit    = "DEFER_LIMIT"
	ReasonExpiresFirst  = "EXPIRES_FIRST"
	ReasonDigested      = "DIGESTED"
	ReasonLimit         = "LIMIT"
	ReasonPaused        = "USER_PAUSED"
	ReasonSnoozed       = "USER_SNOOZED"
	ReasonTopicDigest   = "TOPIC_DIGEST"
	ReasonRead          = "ALREADY_READ"
	ReasonDelivered     = "ALREADY_DELIVERED"
	ReasonEscalated     = "ESCALATED"
	ReasonOtherChannel  = "OTHER_CHANNEL"
	ReasonCancelled     = "CANCELLED"
	ReasonReplaced      = "REPLACED"
	ReasonReplaces      = "REPLACES"
)

func nameOf(names []string, i int) string {
	if i >= len(names) {
		return ""
	}
	return names[i]
}

func indexOf(names []string, name string) int { return max(0, slices.Index(names, name)) }
