package notifications

import (
	"encoding/json"
	"strconv"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// message is an event in the wire format.
type message struct {
	EventID   string         `json:"event_id"`
	UserID    string         `json:"user_id"`
	Type      string         `json:"event_type"`
	Title     string         `json:"title"`
	Message   string         `json:"message,omitempty"`
	Source    string         `json:"source"`
	Hint      string         `json:"priority_hint,omitempty"`
	Channels  []string       `json:"channel"`
	Timestamp string         `json:"timestamp"`
	ExpiresAt string         `json:"expires_at,omitempty"`
	DedupeKey string         `json:"dedupe_key,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

// event makes the post of a draft. It has no label yet.
func (d *draft) event(id uuid.UUID) Event {
	s := &services[d.kind]
	title, text := d.texts()
	m := message{
		EventID: id.String(), UserID: d.to.ID, Type: s.kind.String(), Title: title, Message: text,
		Source: s.source, Hint: d.hint().String(), Timestamp: stamp(d.at), DedupeKey: d.key(), Metadata: d.metadata(),
	}
	for _, c := range s.channels {
		m.Channels = append(m.Channels, c.String())
	}
	if s.expires > 0 {
		m.ExpiresAt = stamp(d.at + millis(s.expires))
	}
	e := Event{At: d.at, ID: id, User: d.to.ID, Type: s.kind, Title: title, Message: text, Key: m.DedupeKey}
	if about, present := m.Metadata[s.identity].(string); present {
		e.Identity = []string{about}
	}
	e.Body, _ = json.Marshal(m) // strings and small objects cannot fail
	return e
}

// hint is the service's, and more than it for some failed payments.
func (d *draft) hint() notify.Hint {
	if d.kind == failed && d.roll%4 == 0 {
		return notify.Critical
	}
	return services[d.kind].hint
}

// key makes the dedupe_key, "" for none.
func (d *draft) key() string {
	s := &services[d.kind]
	switch s.key {
	case goodKey:
		return s.name + "-" + d.about + "-" + d.serial
	case sparseKey:
		if d.roll%10 < 6 {
			return s.name + "-" + d.about + "-" + d.values[slotParcel] + d.values[slotDate] + d.values[slotPercent]
		}
	case campaignKey:
		return s.name + "-" + d.serial + d.values[slotDate]
	case unreliable:
		return s.name + "-" + d.to.ID
	case noKey:
	}
	return ""
}

func (d *draft) metadata() map[string]any {
	m := map[string]any{}
	for name, value := range d.extra {
		m[name] = value
	}
	if s := &services[d.kind]; s.identity != "" && !d.to.silent {
		m[s.identity] = d.about
	}
	if d.to.dated {
		m["timezone"] = d.to.Zone
	}
	if d.kind == campaign || d.kind == last {
		m["campaign"] = d.values[slotVoucher]
	}
	if n, err := strconv.Atoi(d.values[slotPercent]); err == nil {
		m["percent"] = n
	}
	return m
}

func stamp(at engine.Millis) string { return at.Time().Format("2006-01-02T15:04:05.000Z") }
