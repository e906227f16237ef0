package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Event is what a user did, in the form keyfold reads.
type Event struct {
	UserID       int            `json:"user_id"`
	Type         string         `json:"event_type"`
	SearchPhrase *string        `json:"search_phrase"`
	ProductID    *int           `json:"product_id"`
	OccurredAt   string         `json:"occurred_at"`
	Metadata     map[string]any `json:"metadata,omitempty"`
	MessageID    string         `json:"message_id"`
	Version      string         `json:"version"`
}

// occurredAt is RFC 3339 with milliseconds and the offset.
const occurredAt = "2006-01-02T15:04:05.000Z07:00"

// NewEvent makes an event. eventType is one of search, product_view,
// product_click and product_purchase; reference is the phrase of a search and
// the product's id otherwise.
//
// The message_id follows from what happened and when. Make the event once and
// keep it for as long as you may have to send it: sent twice, it counts once.
func NewEvent(userID int, eventType, reference string, at time.Time) (*Event, error) {
	e := &Event{UserID: userID, Type: eventType, OccurredAt: at.Format(occurredAt), Version: "1.0"}
	if eventType == "search" {
		e.SearchPhrase = &reference
	} else {
		id, err := strconv.Atoi(reference)
		if err != nil {
			return nil, fmt.Errorf("the product's id: %w", err)
		}
		e.ProductID = &id
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d|%s|%s|%s", userID, eventType, reference, e.OccurredAt))
	e.MessageID = hex.EncodeToString(sum[:])
	return e, nil
}
