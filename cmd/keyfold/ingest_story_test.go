package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// Story 1.1, FR-001 to FR-003: a search that was posted is a row with the
// columns of the data model before it is a message with user, phrase and time, and then
// part of the user's profile.
//
// Promise(outbox/stored): An event answered with 202 is committed: it outlives a `kill -9` of the
// database, is published at least once and folded once.
// Figure: 0 lost over 10 kills and 10,000 events
func TestIngestStory1SearchReachesTheProfile(t *testing.T) {
	onEach(t, outbox.MariaDB, func(t *testing.T, s *shop) {
		o := s.observe(t)
		api := s.ingest(t)
		s.work(t, quick).ready()
		now := time.Now().Add(-time.Minute).UTC().Truncate(time.Millisecond)
		occurred := now.Format("2006-01-02T15:04:05.000Z")
		first := api.accepted(fmt.Appendf(nil, `{"user_id":12,"event_type":"search","search_phrase":"trail shoes","occurred_at":%q}`, occurred))
		s.checkMessage(t, o.next(), first.MessageIDs[0], "search", now)
		s.settled(t, s.expect(t, s.bodies(t)))

		// The profile exists: the story's own search changes it.
		a := api.accepted(fmt.Appendf(nil, `{"user_id":12,"event_type":"search","search_phrase":"wireless headphones","occurred_at":%q,"metadata":{"device":"mobile"}}`, occurred))
		id := profile.MessageID(12, profile.Search, "wireless headphones", occurred)
		if a.MessageIDs[0] != id {
			t.Errorf("the id is %s, want the digest %s", a.MessageIDs[0], id)
		}
		s.checkRow(t, id, row{User: 12, Type: "search", Phrase: "wireless headphones", Occurred: now, Metadata: `{"device":"mobile"}`})
		s.checkMessage(t, o.next(), id, "search", now)
		s.settled(t, s.expect(t, s.bodies(t)))
		s.allSent(t)
	})
}

// Story 2.1 and 2.3: views, clicks and purchases do the same with their product,
// and those of one window share one write.
//
// Promise(outbox/repeated-request): A request that is sent again is stored once, also after `outbox
// cleanup` of its rows.
// Promise(outbox/stored)
func TestIngestStory2ProductEventsReachTheProfile(t *testing.T) {
	onEach(t, outbox.PostgreSQL, func(t *testing.T, s *shop) {
		o := s.observe(t)
		api := s.ingest(t)
		now := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
		var bodies [][]byte
		for i, kind := range []profile.EventType{profile.ProductView, profile.ProductClick, profile.ProductPurchase} {
			bodies = append(bodies, event(7, kind, 1+50*i, now.Add(time.Duration(i)*time.Second), fmt.Sprint("step ", i)))
		}
		// The shop's own JSON array.
		array := append(append([]byte("["), []byte(strings.Join(texts(bodies), ","))...), ']')
		if a := api.post(array); a.Code != http.StatusAccepted || a.Accepted != 3 {
			t.Fatalf("%d %s", a.Code, a.Text)
		}
		s.allSent(t)
		for i, kind := range []string{"product_view", "product_click", "product_purchase"} {
			at := now.Add(time.Duration(i) * time.Second)
			s.checkRow(t, fmt.Sprint("step ", i), row{User: 7, Type: kind, Product: int32(1 + 50*i), Occurred: at, Metadata: `{"device":"mobile"}`})
			s.checkMessage(t, o.next(), fmt.Sprint("step ", i), kind, at)
		}
		s.work(t, "--batch-window=2").ready()
		s.settled(t, s.expect(t, bodies))
		if p := allProfiles(t, s.open(t))[7]; p.Version != 1 || p.EventCount != 3 {
			t.Errorf("three events of one window took %d writes, %d events", p.Version, p.EventCount)
		}
		if a := api.accepted(bodies...); a.Accepted != 0 || a.Duplicate != 3 {
			t.Errorf("posted again: %s", a.Text)
		}
	})
}

func texts(bodies [][]byte) []string {
	var all []string
	for _, b := range bodies {
		all = append(all, string(b))
	}
	return all
}

// row is what the data model's columns hold.
type row struct {
	User     int32
	Type     string
	Phrase   string
	Product  int32
	Occurred time.Time
	Metadata string
}

func (s *shop) checkRow(t *testing.T, id string, want row) {
	t.Helper()
	var (
		got                     row
		phrase                  *string
		product                 *int32
		occurred, created, meta string
		sent                    bool
	)
	if err := s.pool(t).QueryRow(s.placed("SELECT user_id, event_type, search_phrase, product_id, CAST(occurred_at AS CHAR(23)), CAST(created_at AS CHAR(23)), metadata, processed_to_queue "+
		"FROM user_interactions WHERE message_id = ?"), id).
		Scan(&got.User, &got.Type, &phrase, &product, &occurred, &created, &meta, &sent); err != nil {
		t.Fatal(err)
	}
	if (phrase == nil) != (want.Phrase == "") || (product == nil) != (want.Product == 0) {
		t.Errorf("%s: phrase %v, product %v; want %q, %d", id, phrase, product, want.Phrase, want.Product)
		return
	}
	if phrase != nil {
		got.Phrase = *phrase
	} else {
		got.Product = *product
	}
	at, err := time.Parse(time.DateTime, strings.TrimSpace(occurred))
	must.OK(t, err)
	got.Occurred, got.Metadata = at, meta
	if got != want {
		t.Errorf("%s is stored as %+v, want %+v", id, got, want)
	}
	if stored, err := time.Parse(time.DateTime, strings.TrimSpace(created)); err != nil || math.Abs(time.Since(stored).Seconds()) > 600 {
		t.Errorf("%s: created_at %q is not now in UTC: %v", id, created, err)
	}
}

// checkMessage compares a message with the data model's headers and body.
func (s *shop) checkMessage(t *testing.T, m amqp.Delivery, id, kind string, at time.Time) {
	t.Helper()
	if m.ContentType != "application/json" || m.ContentEncoding != "utf-8" || m.DeliveryMode != amqp.Persistent || m.Priority != 5 ||
		m.AppId != "keyfold" || m.MessageId != id || m.Timestamp.Unix() != at.Unix() {
		t.Errorf("properties: %q %q mode %d priority %d app %q id %q at %v; want id %q at %v", m.ContentType, m.ContentEncoding,
			m.DeliveryMode, m.Priority, m.AppId, m.MessageId, m.Timestamp, id, at)
	}
	if m.Exchange != "user_events" || m.RoutingKey != "user.embedding."+kind {
		t.Errorf("published to %q with %q", m.Exchange, m.RoutingKey)
	}
	var body map[string]any
	must.OK(t, json.Unmarshal(m.Body, &body))
	if body["message_id"] != id || body["version"] != "1.0" || body["event_type"] != kind {
		t.Errorf("the body is %s", m.Body)
	}
	if e, err := profile.ParseEvent(m.Body, time.Now()); err != nil || e.OccurredAt != engine.MillisOf(at) {
		t.Errorf("the body is %s: %v", m.Body, err)
	}
}
