package message

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
)

// longest has the links of the longest user id.
type longest struct{}

func (longest) Links(*notify.Dispatch) *Links {
	text := "https://shop.example/n/unsubscribe?t=" + strings.Repeat("x", 4<<10)
	return &Links{Preferences: text, Unsubscribe: text}
}

// The largest message of a digest is below the megabyte that web servers take by default:
// no character is longer there than "<" is, which JSON for the web escapes.
//
// Promise(notify-worker/large-digests)
func TestTheLargestDigest(t *testing.T) {
	for _, runes := range []int{1, notify.MaxMessageRunes, notify.MaxMetadataBytes} {
		text := strings.Repeat("<", runes)
		body := fmt.Appendf(nil, `{"event_id":"%v","metadata":{"a":"%s"},"channel":["push"]}`, uuid.Max, text)
		d, bytes := notify.Dispatch{ID: uuid.Max}, 0
		for len(d.Events) < notify.MaxDigestItems && bytes+len(body) <= notify.MaxDigestBytes {
			bytes += len(body)
			d.Events = append(d.Events, &notify.Notification{ID: uuid.Max, Type: notify.Security, Body: body, ExpiresAt: engine.Now()})
			d.Records = append(d.Records, notify.Record{DigestID: d.ID, DigestKey: strings.Repeat("<", notify.MaxGroupBytes), Reasons: []string{notify.ReasonDigested}, Channels: notify.Channels})
		}
		line, err := Append(nil, &d, longest{})
		must.OK(t, err)
		if len(line) >= 1<<20 || len(line) < bytes {
			t.Errorf("%d items with %d signs each are %d bytes", len(d.Events), runes, len(line))
		}
	}
}

// A digest is of use until its last item has expired: one that never expires keeps it.
func TestADigestExpiresWithItsLastItem(t *testing.T) {
	for want, expiries := range map[string][]engine.Millis{"1970-01-01T00:00:02.000Z": {1000, 2000}, "": {1000, 0}} {
		d := notify.Dispatch{ID: uuid.New()}
		for _, at := range expiries {
			d.Events = append(d.Events, &notify.Notification{ID: uuid.New(), ExpiresAt: at, Body: []byte("{}")})
			d.Records = append(d.Records, notify.Record{DigestID: d.ID})
		}
		m, err := Of(&d, nil)
		must.OK(t, err)
		got := ""
		if m.ExpiresAt != nil {
			got = *m.ExpiresAt
		}
		if got != want {
			t.Errorf("items that expire at %v make one that expires at %q, want %q", expiries, got, want)
		}
	}
}

// A digest shows the first items and counts the others, under the texts that were made when it
// was decided, whatever the order in which it is read again.
func TestADigestShowsSomeItems(t *testing.T) {
	d := notify.Dispatch{ID: uuid.New()}
	for i := range 5 {
		e := &notify.Notification{ID: uuid.New(), Type: notify.Update, Title: fmt.Sprint(i), Timestamp: engine.Millis(10 - i), Body: []byte("{}")}
		d.Events = append(d.Events, e)
		d.Records = append(d.Records, notify.Record{EventID: e.ID, DigestID: d.ID})
	}
	d.Records[3].Facts.Digest = notify.DigestMessage{Key: "orders", Title: "5 news", Message: "and more", Show: 2, More: 3}
	m, err := Of(&d, nil)
	must.OK(t, err)
	if m.Title != "5 news" || m.Text != "and more" || m.Digest.Key != "orders" || m.Digest.More != 3 || len(m.EventIDs) != 5 ||
		len(m.Digest.Items) != 2 || m.Digest.Items[0].Title != "4" || m.Digest.Items[1].Title != "3" {
		t.Errorf("%+v %+v", m, m.Digest)
	}
}

// A follow-up names what it follows.
func TestAFollowUpNamesItsRoot(t *testing.T) {
	root := uuid.New()
	e := &notify.Notification{ID: notify.FollowID(root, 1), Follows: &notify.Follows{Root: root, Step: 1}, Body: []byte("{}")}
	m, err := Of(&notify.Dispatch{ID: e.ID, Events: []*notify.Notification{e}, Records: []notify.Record{{EventID: e.ID}}}, nil)
	if err != nil || m.Follows == nil || *m.Follows != root || m.DispatchID == root {
		t.Errorf("%v: %+v", err, m)
	}
}
