package consume

import (
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// An id that is longer than a property may be does not cost the connection, and
// with it everybody's messages: its digest stands for it, and the body keeps it.
//
// Promise(outbox/long-ids): An id that is longer than a property of the broker's protocol is carried
// by its digest, so that one event stops no other.
func TestEventMessageWithALongID(t *testing.T) {
	s := shared(t)
	id := strings.Repeat("€", profile.MaxMessageRunes)
	text := []byte(strings.Replace(string(sitetest.Body(7)), "m000007", id, 1))
	event, err := profile.ParseEvent(text, time.Now())
	if err != nil || event.MessageID != id {
		t.Fatal(event, err)
	}
	s.Publish(s.Names.EventMessage(text, &event))
	d, ok, err := s.Channel().Get(s.Names.Queue, true)
	if err != nil || !ok || len(d.MessageId) != 32 || string(d.Body) != string(text) {
		t.Fatalf("%t %v %+v", ok, err, d)
	}
	original := rabbit.OriginalOf(&d)
	if back, err := EventOf(&original, time.Now()); err != nil || back != event {
		t.Errorf("read back as %+v: %v", back, err)
	}
}
