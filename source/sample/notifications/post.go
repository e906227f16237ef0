package notifications

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Post is a notification as services post it.
type Post struct {
	ID        uuid.UUID        `json:"event_id"`
	User      string           `json:"user_id"`
	Type      notify.EventType `json:"event_type"`
	Title     string           `json:"title"`
	Message   string           `json:"message,omitempty"`
	Source    string           `json:"source"`
	Hint      notify.Hint      `json:"priority_hint,omitzero"`
	Channels  []notify.Channel `json:"channel"`
	Timestamp string           `json:"timestamp"`
	ExpiresAt string           `json:"expires_at,omitempty"`
	Key       string           `json:"dedupe_key,omitempty"`
	Metadata  map[string]any   `json:"metadata,omitempty"`

	Expires time.Duration `json:"-"` // after the timestamp; 0: never
}

// BodyAt returns the JSON of the notification, posted at an instant.
func (p Post) BodyAt(at engine.Millis) []byte {
	p.Timestamp = stamp(at)
	if p.Expires > 0 {
		p.ExpiresAt = stamp(at + engine.Millis(p.Expires.Milliseconds()))
	}
	body, _ := json.Marshal(p) // strings and words cannot fail
	return body
}

func stamp(at engine.Millis) string { return at.Time().Format("2006-01-02T15:04:05.000Z") }

// NewID draws a random id, UUID version 4.
func NewID(r *rand.Rand) (id uuid.UUID) {
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}
