package notify

import (
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/similar"
)

// Windows over which sends are counted, shortest first.
var Windows = [3]engine.Millis{5 * 60 * 1000, 60 * 60 * 1000, 24 * 60 * 60 * 1000}

// MaxCap bounds a cap: a state keeps the newest 256 sends.
const MaxCap = 250

// Caps is how many notifications a user gets in each of [Windows]; in preferences
// 0 means the policy's.
type Caps [3]int

// Policy is the part of a set beside its rules.
type Policy struct {
	Types    [typeCount]TypePolicy // by EventType
	Caps     Caps
	Identity []string // metadata paths whose values are part of an event's content
	Score    ScorePolicy
	Limits   []Limit
	Topics   []Topic
	// Awake are the channels that quiet hours do not hold, because they wake no one.
	Awake ChannelSet
	// Digests are the texts of digests, by their key; "" is for the others.
	Digests map[string]DigestPolicy
}

// DigestPolicy says what a digest's message shows.
type DigestPolicy struct {
	Show    int       // items that it shows, 0: all; the others are counted
	Title   *Template // nil: none
	Message *Template // nil: none
}

// TypePolicy is the policy of one type.
type TypePolicy struct {
	DuplicateWindow engine.Millis // 0: exact duplicates are not looked for
	ByKeyOnly       bool          // duplicates need equal, non-empty dedupe_keys
	Near            bool          // near duplicates are looked for, in the same window
	Capped          bool          // false: it counts, and no cap holds it
	Cooldown        engine.Millis // 0: none
	Quiet           bool          // quiet hours hold it
	NowAtLimit      bool          // what follows the second deferral: NOW, else NEVER
	Base            float64       // of the score
	OpenRate        float64       // the usual share that users open; the prior of the score's response
	HalfLife        engine.Millis // of the score's recency
	EmbedText       bool          // the text may be sent to the embedding API
	OthersLater     bool          // channels that are held are sent later; false: never
	CappedToDigest  bool          // what a cap, a limit or a cooldown holds waits for a digest, not for a slot
}

// ScorePolicy weighs the parts of a score.
type ScorePolicy struct {
	Weights        Parts
	Now, Later     float64 // thresholds
	Taste          bool    // the taste term takes part
	Floor, Ceiling float64 // of the cosine
	Response       float64 // what how the user responds adds or takes at most; 0: it does not count
}

// Parts are the parts of a score, or their weights.
type Parts struct {
	Base    float64 `json:"base"`
	Hint    float64 `json:"hint"`
	Taste   float64 `json:"taste"`
	Recency float64 `json:"recency"`
	Calm    float64 `json:"calm"`
}

// Horizon is how far back a decision looks: a state keeps nothing older.
func (p *Policy) Horizon() engine.Millis {
	h := Windows[2]
	for i := range p.Types {
		h = max(h, p.Types[i].Cooldown, p.Types[i].DuplicateWindow)
	}
	for i := range p.Limits {
		h = max(h, p.Limits[i].Within)
	}
	return h
}

// Print returns the fingerprint of an event's texts, of the identity values of its
// metadata and of its dedupe_key.
func (p *Policy) Print(n *Notification) similar.Print {
	identity := make([]string, len(p.Identity))
	for i, path := range p.Identity {
		identity[i] = n.Metadata.Get(path).text()
	}
	return similar.Of(n.Type.String(), n.Title, n.Message, identity, n.DedupeKey)
}

// MaxHorizon bounds [Policy.Horizon].
const MaxHorizon = engine.Millis(7 * 24 * time.Hour / time.Millisecond)

// Set is what decides: a published document, compiled. It is not changed.
type Set struct {
	Version string // of the document, as records name it
	Policy  Policy
	Rules   Rules
	Local   Local
	// Shadow is a candidate by which decisions are made a second time, without effect;
	// nil: none.
	Shadow *Set
}

// Local holds the hours of users who have none of their own: settings, which are
// not a part of the document.
type Local struct {
	Zone    *quiet.Zone
	Morning quiet.Clock   // 08:00
	Digests []quiet.Clock // 09:00, 18:00; ascending
}

// Rules is the compiled list of a set's rules; package rule makes it.
type Rules interface {
	// Match returns the first rule, by priority, that the facts match, without
	// those in spent; nil where there is none. It does not allocate.
	Match(facts *Input, spent []uuid.UUID) *Action
}

// NearRules is implemented by [Rules] that can say which of them nearly match: a record
// keeps it, because the explanation is made from the record alone.
type NearRules interface {
	// MatchNear is Match. It says too, of at most so many rules before the one that matched,
	// what one comparison asks for and the event has instead.
	MatchNear(facts *Input, spent []uuid.UUID, most int) (match *Action, near []string)
}

// Input is what rules can ask for.
type Input struct {
	Event      *Notification
	Turn       int
	AgeMs      engine.Millis // since the event's timestamp, at least 0
	ExpiresMs  engine.Millis // until it expires; meaningless where Event.ExpiresAt is 0
	Hour       int           // local, 0 to 23
	Weekday    int           // local, 1 Monday to 7 Sunday
	InQuiet    bool
	Counts     [3]int        // sends in each of Windows
	Sent       []Sent        // what the state keeps of sends, oldest first
	Now        engine.Millis // of the decision
	Attributes Metadata      // of the user
	SinceLast  engine.Millis // since the user's last send; -1: none within the horizon
	SinceSame  engine.Millis // since the last send of this type; -1: none
}

// Action is what a matching rule says.
type Action struct {
	Rule     uuid.UUID
	Name     string
	Outcome  Outcome
	Strategy Strategy      // of Later
	Within   engine.Millis // of LikelyHour: how long it waits at most
	Channels []Channel     // nil: the event's
	Reason   string
	// What a NOW is not held by.
	Bypass    Bypass
	DigestKey []string     // fields whose values make the key of a digest; nil: event_type
	Escalate  []Escalation // of NOW: what follows on other channels
}

// Bypass names the stages that a rule's NOW skips.
type Bypass struct{ Caps, Cooldown, Quiet bool }

// Forced is the bypass of a NOW that names none: nothing holds the event.
var Forced = Bypass{Caps: true, Cooldown: true, Quiet: true}

// Preferences are a user's own settings.
type Preferences struct {
	Zone       *quiet.Zone // nil: none
	Quiet      quiet.Hours // empty: none
	Muted      []EventType
	Channels   []Channel                  // those that are allowed; empty: all
	Caps       Caps                       // 0: the policy's
	Topics     map[string]TopicPreference // by [Topic.Name]
	Digests    []quiet.Clock              // times of digests, ascending; empty: those of the settings
	Attributes Attributes                 // of the user, for rules
	Paused     bool                       // nothing is sent
	// MutedUntil: nothing is sent before. SnoozedUntil: what comes before waits until then.
	MutedUntil, SnoozedUntil engine.Millis
}
