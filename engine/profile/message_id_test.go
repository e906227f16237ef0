package profile

import (
	"strings"
	"testing"
)

// The hashes were made with sha256sum.
func TestMessageID(t *testing.T) {
	for _, tc := range []struct {
		user                  int32
		eventType             EventType
		reference, occurredAt string
		want                  string
	}{
		{
			12345, ProductPurchase, "789", "2026-02-10T14:30:00+00:00",
			"0fa917e9a0b15ea950e4b9d1a01438165f1b85e272b5b0d3164cbd14e99f6667",
		},
		{
			7, Search, "  Rote Schuhe ü ", "2026-02-10T14:30:00.5+0100",
			"9bb38640b9552b9d3f5c124c01643058ebaddb71f0a8d5f1be9d5ec7d6d62220",
		},
		{ // longer than its buffer
			2147483647, Search, strings.Repeat("x", 300), "2026-02-10T14:30:00Z",
			"5b7826301d7ff276015e66e98cdf5f666bfc5622a73ebd5fc8fd51208d152fe3",
		},
	} {
		if got := MessageID(tc.user, tc.eventType, tc.reference, tc.occurredAt); got != tc.want {
			t.Errorf("MessageID(%d, %s, %.20q, %s) = %s, want %s", tc.user, tc.eventType, tc.reference, tc.occurredAt, got, tc.want)
		}
	}
}

// A body without an id gets the id of its own literals, however they are
// escaped.
func TestMissingMessageIDIsMadeOfTheLiterals(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{
			search("user_id", "7", "search_phrase", `"  Rote Schuhe \u00fc "`, "message_id", "",
				"occurred_at", `"2026-02-10T14:30:00.5\u002b0100"`),
			"9bb38640b9552b9d3f5c124c01643058ebaddb71f0a8d5f1be9d5ec7d6d62220",
		},
		{
			message("event_type", `"product_purchase"`, "message_id", "null"),
			"0fa917e9a0b15ea950e4b9d1a01438165f1b85e272b5b0d3164cbd14e99f6667",
		},
	} {
		e, err := ParseEvent([]byte(tc.body), testNow)
		if err != nil || e.MessageID != tc.want {
			t.Errorf("%s: got %q, %v, want %s", tc.body, e.MessageID, err, tc.want)
		}
	}
}
