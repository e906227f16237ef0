package explanation

import (
	"testing"

	"keyfold/engine/profile"
	"keyfold/source/outbox"
)

// The row and the profile's ids tell which events are in the profile.
func TestStateOfAnEvent(t *testing.T) {
	known, other := profile.DigestOf("known"), profile.DigestOf("other")
	folded := map[profile.AppliedID]bool{known.ID(): true}
	for _, test := range []struct {
		row  outbox.Row
		want string
	}{
		{outbox.Row{Event: profile.Event{Digest: known}}, ""}, // folded, and not marked yet
		{outbox.Row{Event: profile.Event{Digest: known}, Sent: true, SentAt: 200}, ""},
		{outbox.Row{Event: profile.Event{Digest: other}}, "waiting to be published"},
		{outbox.Row{Event: profile.Event{Digest: other}, Sent: true, SentAt: 100}, "published, and waiting in a queue or given up"},
		{outbox.Row{Event: profile.Event{Digest: other}, Sent: true, StoredAt: 100}, "published, and waiting in a queue or given up"},
		{outbox.Row{Event: profile.Event{Digest: other}, Sent: true, SentAt: 99, StoredAt: 50}, ""}, // its id may be dropped by now
	} {
		if got := stateOf(&test.row, 100, folded); got != test.want {
			t.Errorf("%+v: %q, want %q", test.row, got, test.want)
		}
	}
}
