package message

import (
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// A digest is of use until its last item has expired: one that never expires keeps it.
func TestADigestExpiresWithItsLastItem(t *testing.T) {
	for want, expiries := range map[string][]engine.Millis{"1970-01-01T00:00:02.000Z": {1000, 2000}, "": {1000, 0}} {
		d := notify.Dispatch{ID: uuid.New()}
		for _, at := range expiries {
			d.Events = append(d.Events, &notify.Notification{ID: uuid.New(), ExpiresAt: at, Body: []byte("{}")})
			d.Records = append(d.Records, notify.Record{DigestID: d.ID})
		}
		m, err := Of(&d)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if m.ExpiresAt != nil {
			got = *m.ExpiresAt
		}
		if got != want {
			t.Errorf("items that expire at %v make one that expires at %q, want %q", expiries, got, want)
		}
	}
}
