// Package message has the JSON text in which senders get a dispatch.
package message

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Version is the format's version.
const Version = "1.0"

// Begin is how each message begins.
const Begin = `{"version":"`

// Message is what a sender gets for one NOW, or for the items of a digest. A sender
// that knows the dispatch_id drops the message: it is a repeat.
type Message struct {
	Version    string          `json:"version"`
	DispatchID uuid.UUID       `json:"dispatch_id"` // the event's id, or the digest's
	DecisionID uuid.UUID       `json:"decision_id"` // of the first item of a digest
	EventIDs   []uuid.UUID     `json:"event_ids"`
	UserID     string          `json:"user_id"`
	EventType  string          `json:"event_type"` // of a digest DIGEST
	Channels   []string        `json:"channels"`   // preferred first
	Title      string          `json:"title"`
	Text       string          `json:"message"`
	Metadata   json.RawMessage `json:"metadata"`
	ExpiresAt  *string         `json:"expires_at"` // of a digest the latest, null where an item has none
	DecidedAt  string          `json:"decided_at"`
	Turn       int             `json:"turn"`
	Reasons    []string        `json:"reasons"`
	Digest     *Digest         `json:"digest"` // null: one event
	// Follows is the event that was sent before on other channels; absent: none.
	Follows *uuid.UUID `json:"follows,omitempty"`
	Links   *Links     `json:"links,omitempty"`
}

// Links are addresses for the user, who needs no password there.
type Links struct {
	Preferences string `json:"preferences"`
	// Unsubscribe takes a POST of one click (RFC 8058), for the header List-Unsubscribe; "":
	// the user cannot turn it off.
	Unsubscribe string `json:"unsubscribe,omitempty"`
}

// Linker makes the links of a dispatch; nil: it has none.
type Linker interface {
	Links(d *notify.Dispatch) *Links
}

// Digest is the part of a message that collects several events.
type Digest struct {
	Key   string `json:"key"`
	Items []Item `json:"items"`
	More  int    `json:"more,omitzero"` // items that it does not show
}

// Item is one event of a digest.
type Item struct {
	DecisionID uuid.UUID       `json:"decision_id"`
	EventID    uuid.UUID       `json:"event_id"`
	EventType  string          `json:"event_type"`
	Title      string          `json:"title"`
	Text       string          `json:"message"`
	Metadata   json.RawMessage `json:"metadata"`
	ExpiresAt  *string         `json:"expires_at"`
}

// Of returns the message of a dispatch. links may be nil: then it has none.
func Of(d *notify.Dispatch, links Linker) (Message, error) {
	if len(d.Records) == 0 || len(d.Records) != len(d.Events) {
		return Message{}, engine.PermanentError("bad_dispatch", fmt.Errorf("dispatch %s has %d records and %d events: it needs as many of both, and one at least", d.ID, len(d.Records), len(d.Events)))
	}
	first := &d.Records[0]
	m := Message{
		Version: Version, DispatchID: d.ID, DecisionID: first.DecisionID, UserID: first.UserID,
		DecidedAt: instant(first.DecidedAt), Turn: first.Turn, Reasons: first.Reasons, Channels: []string{},
	}
	if links != nil {
		m.Links = links.Links(d)
	}
	items := make([]Item, len(d.Events))
	for i, e := range d.Events {
		r := &d.Records[i]
		metadata, err := metadataOf(e)
		if err != nil {
			return Message{}, err
		}
		m.EventIDs = append(m.EventIDs, e.ID)
		for _, c := range r.Channels {
			if name := c.String(); !slices.Contains(m.Channels, name) {
				m.Channels = append(m.Channels, name)
			}
		}
		items[i] = Item{DecisionID: r.DecisionID, EventID: e.ID, EventType: e.Type.String(), Title: e.Title, Text: e.Message, Metadata: metadata, ExpiresAt: expiry(e.ExpiresAt)}
	}
	if first.DigestID == uuid.Nil {
		only := &items[0]
		if f := d.Events[0].Follows; f != nil {
			m.Follows = &f.Root
		}
		m.EventType, m.Title, m.Text, m.Metadata, m.ExpiresAt = only.EventType, only.Title, only.Text, only.Metadata, only.ExpiresAt
		return m, nil
	}
	m.EventType, m.Metadata = notify.Digest.String(), json.RawMessage("null")
	m.Digest = &Digest{Key: first.DigestKey, Items: items}
	m.shorten(d)
	m.ExpiresAt = expiry(latest(d.Events))
	return m, nil
}

// shorten leaves items out that the digest only counts, and takes its texts. Those are with
// the record of the first item; a dispatch that is made again may have them in another order.
func (m *Message) shorten(d *notify.Dispatch) {
	at := slices.IndexFunc(d.Records, func(r notify.Record) bool { return r.Facts.Digest.Show > 0 })
	if at < 0 {
		return
	}
	texts := d.Records[at].Facts.Digest
	m.Digest.Key, m.Title, m.Text = texts.Key, texts.Title, texts.Message
	order := make([]int, len(d.Events))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return notify.CompareEvents(d.Events[a], d.Events[b]) })
	items := m.Digest.Items
	m.Digest.Items = make([]Item, 0, texts.Show)
	for _, at := range order[:min(texts.Show, len(order))] {
		m.Digest.Items = append(m.Digest.Items, items[at])
	}
	m.Digest.More = len(order) - len(m.Digest.Items)
}

// Append appends the message of a dispatch as one line of JSON, without its end. links may
// be nil.
func Append(b []byte, d *notify.Dispatch, links Linker) ([]byte, error) {
	m, err := Of(d, links)
	if err != nil {
		return b, err
	}
	return m.Append(b)
}

// Append appends the message as one line of JSON, without its end.
func (m *Message) Append(b []byte) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return b, engine.PermanentError("bad_dispatch", fmt.Errorf("dispatch %s: %w", m.DispatchID, err))
	}
	return append(b, text...), nil
}

// metadataOf returns the metadata as it was posted, null where there is none.
func metadataOf(e *notify.Notification) (json.RawMessage, error) {
	var body struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return nil, engine.PermanentError("bad_dispatch", fmt.Errorf("event %s: its stored text is no JSON: %w", e.ID, err))
	}
	if body.Metadata == nil {
		return json.RawMessage("null"), nil
	}
	return body.Metadata, nil
}

// latest returns when the last event expires; 0: one of them never does.
func latest(events []*notify.Notification) (at engine.Millis) {
	for _, e := range events {
		if e.ExpiresAt == 0 {
			return 0
		}
		at = max(at, e.ExpiresAt)
	}
	return at
}

func expiry(at engine.Millis) *string {
	if at == 0 {
		return nil
	}
	text := instant(at)
	return &text
}

func instant(at engine.Millis) string { return at.Time().Format("2006-01-02T15:04:05.000Z07:00") }
