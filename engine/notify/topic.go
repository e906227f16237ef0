package notify

import (
	"encoding/json"
	"fmt"

	"keyfold/engine"
)

// Topic is a category of notifications as users know it: preferences choose its channels.
type Topic struct {
	Name   string // of preferences
	Title  string // for people
	Of     Selector
	Locked bool // no preference keeps it from the user
}

// MaxTopics bounds the topics of a policy, and of preferences.
const MaxTopics = 64

// Choice is what a user has chosen of a channel of a topic.
type Choice uint8

// The choices.
const (
	ChoiceOn Choice = iota + 1
	ChoiceOff
	ChoiceDigest
	choiceCount = iota + 1
)

var choiceNames = [choiceCount]string{"", "on", "off", "digest"}

// String returns the name in JSON.
func (c Choice) String() string { return nameOf(choiceNames[:], int(c)) }

// TopicPreference is what a user has chosen of a topic.
type TopicPreference struct {
	Channels     [channelCount]Choice // by Channel; 0: on
	MutedUntil   engine.Millis        // nothing is sent before
	SnoozedUntil engine.Millis        // it waits until then
}

// allOn reports whether no channel is off or in digests.
func (p *TopicPreference) allOn() bool {
	for _, choice := range p.Channels {
		if choice > ChoiceOn {
			return false
		}
	}
	return true
}

// TopicOf returns the topic of an event, nil where it has none.
func (p *Policy) TopicOf(n *Notification) *Topic {
	for i := range p.Topics {
		t := &p.Topics[i]
		if (len(t.Of.Types) == 0 || contains(t.Of.Types, n.Type)) && (len(t.Of.Sources) == 0 || contains(t.Of.Sources, n.Source)) {
			return t
		}
	}
	return nil
}

// topicOf returns the topic of a send, of which the hash of the source is known.
func (p *Policy) topicOf(kind EventType, source uint32) *Topic {
	for i := range p.Topics {
		t := &p.Topics[i]
		if len(t.Of.Types) > 0 && !contains(t.Of.Types, kind) {
			continue
		}
		of := len(t.Of.Sources) == 0
		for _, s := range t.Of.Sources {
			of = of || SourceHash(s) == source
		}
		if of {
			return t
		}
	}
	return nil
}

// snoozed returns until when the user wants nothing of the topic of another send; 0: at once.
func (d *decision) snoozed(kind EventType, source uint32) engine.Millis {
	t := d.set.Policy.topicOf(kind, source)
	switch {
	case kind == Security || t != nil && t.Locked:
		return 0
	case t != nil:
		return max(d.prefs.SnoozedUntil, d.prefs.Topics[t.Name].SnoozedUntil)
	default:
		return d.prefs.SnoozedUntil
	}
}

// topicPreferenceJSON is the JSON form of a preference.
type topicPreferenceJSON struct {
	Channels     map[Channel]Choice `json:"channels,omitempty"`
	MutedUntil   instant            `json:"muted_until,omitzero"`
	SnoozedUntil instant            `json:"snoozed_until,omitzero"`
}

// MarshalJSON returns {"channels":{"push":"off","email":"digest"},"muted_until":"...",
// "snoozed_until":"..."} without what is not set.
func (p TopicPreference) MarshalJSON() ([]byte, error) {
	form := topicPreferenceJSON{MutedUntil: instant(p.MutedUntil), SnoozedUntil: instant(p.SnoozedUntil)}
	for _, c := range Channels {
		if choice := p.Channels[c]; choice != 0 {
			if form.Channels == nil {
				form.Channels = map[Channel]Choice{}
			}
			form.Channels[c] = choice
		}
	}
	return json.Marshal(form)
}

// UnmarshalJSON reads what MarshalJSON has written. It refuses other members.
func (p *TopicPreference) UnmarshalJSON(b []byte) error {
	var members map[string]json.RawMessage
	var form topicPreferenceJSON
	if err := json.Unmarshal(b, &members); err != nil {
		return fmt.Errorf("found %.60s, expected an object such as {\"channels\":{\"push\":\"off\"}}", b)
	}
	for name := range members {
		if name != "channels" && name != "muted_until" && name != "snoozed_until" {
			return fmt.Errorf("unknown member %q: expected channels, muted_until, snoozed_until", name)
		}
	}
	if err := json.Unmarshal(b, &form); err != nil {
		return err
	}
	*p = TopicPreference{MutedUntil: engine.Millis(form.MutedUntil), SnoozedUntil: engine.Millis(form.SnoozedUntil)}
	for c, choice := range form.Channels {
		p.Channels[c] = choice
	}
	return nil
}
