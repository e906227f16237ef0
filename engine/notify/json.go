package notify

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/similar"
)

// preferencesJSON is the JSON form of preferences.
type preferencesJSON struct {
	Zone         string                     `json:"zone,omitzero"`
	Quiet        quiet.Hours                `json:"quiet,omitempty"`
	Muted        []EventType                `json:"muted,omitempty"`
	Channels     []Channel                  `json:"channels,omitempty"`
	Caps         Caps                       `json:"caps,omitzero"`
	Topics       map[string]TopicPreference `json:"topics,omitempty"`
	Digests      []quiet.Clock              `json:"digests,omitempty"`
	Attributes   Attributes                 `json:"attributes,omitzero"`
	Paused       bool                       `json:"paused,omitzero"`
	MutedUntil   instant                    `json:"muted_until,omitzero"`
	SnoozedUntil instant                    `json:"snoozed_until,omitzero"`
}

// MarshalJSON returns {"zone":"Europe/Berlin","quiet":[...],"muted":["PROMO"],
// "channels":["push"],"caps":[3,6,20],"topics":{"offers":{"channels":{"push":"off"}}},
// "digests":["18:00"],"paused":true,"muted_until":"...","snoozed_until":"..."}, without
// what is not set.
func (p Preferences) MarshalJSON() ([]byte, error) {
	form := preferencesJSON{
		Quiet: p.Quiet, Muted: p.Muted, Channels: p.Channels, Caps: p.Caps, Topics: p.Topics, Digests: p.Digests,
		Attributes: p.Attributes, Paused: p.Paused, MutedUntil: instant(p.MutedUntil), SnoozedUntil: instant(p.SnoozedUntil),
	}
	if p.Zone != nil {
		form.Zone = p.Zone.Name()
	}
	return json.Marshal(form)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (p *Preferences) UnmarshalJSON(b []byte) error {
	var form preferencesJSON
	if err := json.Unmarshal(b, &form); err != nil {
		return err
	}
	*p = Preferences{
		Quiet: form.Quiet, Muted: form.Muted, Channels: form.Channels, Caps: form.Caps, Topics: form.Topics, Digests: form.Digests,
		Attributes: form.Attributes, Paused: form.Paused, MutedUntil: engine.Millis(form.MutedUntil), SnoozedUntil: engine.Millis(form.SnoozedUntil),
	}
	if form.Zone == "" {
		return nil
	}
	zone, err := quiet.LoadZone(form.Zone)
	p.Zone = zone
	return err
}

// recordJSON is the JSON form of a record, with the specification's names where it
// has one. Instants are in RFC 3339 with milliseconds, UTC.
type recordJSON struct {
	DecisionID  uuid.UUID   `json:"decision_id"`
	Seq         int64       `json:"seq"`
	EventID     uuid.UUID   `json:"event_id"`
	UserID      string      `json:"user_id,omitzero"` // absent, as source and print are, of an erased user
	Type        EventType   `json:"event_type"`
	Source      string      `json:"source,omitzero"`
	Print       []byte      `json:"print,omitempty"`
	Outcome     Outcome     `json:"outcome"`
	Reasons     []string    `json:"reasons"`
	RuleID      *uuid.UUID  `json:"matched_rule_id"`
	RuleVersion string      `json:"rule_version"`
	Score       *float64    `json:"score"`
	TasteUsed   bool        `json:"ai_used"`
	Cosine      *float64    `json:"ai_score"`
	Turn        int         `json:"defer_count"`
	DecidedAt   instant     `json:"decided_at"`
	DeferUntil  instant     `json:"defer_until"`
	Spent       []uuid.UUID `json:"spent,omitempty"`
	DigestKey   string      `json:"digest_key,omitzero"`
	Slot        instant     `json:"slot,omitzero"`
	DigestID    *uuid.UUID  `json:"digest_id,omitzero"`
	DuplicateOf *uuid.UUID  `json:"duplicate_of,omitzero"`
	Channels    []Channel   `json:"channels,omitempty"`
	Facts       Facts       `json:"facts"`
}

// instant is null in JSON where it is 0.
type instant engine.Millis

const instantLayout = "2006-01-02T15:04:05.000Z07:00"

func (i instant) MarshalJSON() ([]byte, error) {
	if i == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(engine.Millis(i).Time().Format(instantLayout))
}

func (i *instant) UnmarshalJSON(b []byte) error {
	var at *time.Time
	if err := json.Unmarshal(b, &at); err != nil {
		return err
	}
	*i = 0
	if at != nil {
		*i = instant(engine.MillisOf(*at))
	}
	return nil
}

// MarshalJSON returns the record for output and for stores. The event's texts are
// not a part of it; print is the base64 of [similar.Print.Append].
func (r Record) MarshalJSON() ([]byte, error) {
	form := recordJSON{
		DecisionID: r.DecisionID, Seq: r.Seq, EventID: r.EventID, UserID: r.UserID, Type: r.Type, Source: r.Source,
		Outcome: r.Outcome, Reasons: r.Reasons, RuleID: pointer(r.RuleID),
		RuleVersion: r.RuleVersion, TasteUsed: r.Facts.TasteUsed, Turn: r.Turn, DecidedAt: instant(r.DecidedAt),
		DeferUntil: instant(r.DeferUntil), Spent: r.Spent, DigestKey: r.DigestKey, Slot: instant(r.Slot),
		DigestID: pointer(r.DigestID), DuplicateOf: pointer(r.DuplicateOf), Channels: r.Channels, Facts: r.Facts,
	}
	if r.UserID != "" {
		form.Print = r.Print.Append(nil)
	}
	if r.Scored {
		form.Score = &r.Score
	}
	if r.Facts.Taste.Known {
		form.Cosine = &r.Facts.Taste.Cosine
	}
	return json.Marshal(form)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (r *Record) UnmarshalJSON(b []byte) error {
	var form recordJSON
	if err := json.Unmarshal(b, &form); err != nil {
		return err
	}
	var fingerprint similar.Print
	if form.Print != nil {
		var err error
		if fingerprint, _, err = similar.Read(form.Print); err != nil {
			return err
		}
	}
	*r = Record{
		DecisionID: form.DecisionID, Seq: form.Seq, EventID: form.EventID, UserID: form.UserID, Type: form.Type, Source: form.Source,
		Print: fingerprint, Outcome: form.Outcome, Reasons: form.Reasons, RuleID: value(form.RuleID),
		RuleVersion: form.RuleVersion, Turn: form.Turn, DecidedAt: engine.Millis(form.DecidedAt),
		DeferUntil: engine.Millis(form.DeferUntil), Spent: form.Spent, DigestKey: form.DigestKey, Slot: engine.Millis(form.Slot),
		DigestID: value(form.DigestID), DuplicateOf: value(form.DuplicateOf), Channels: form.Channels, Facts: form.Facts,
	}
	if form.Score != nil {
		r.Scored, r.Score = true, *form.Score
	}
	return nil
}

// pointer returns nil for the zero id.
func pointer(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

func value(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}
