package notify

import (
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// The ledger reads a follow-up back by the limits of what was posted.
func TestFollowUpKeepsMetadataAtItsLimit(t *testing.T) {
	for _, text := range []string{"<b>&", "\u2028", `\u003c`, "ä"} {
		html := strings.Repeat(text, (MaxMetadataBytes-len(`{"html":""}`))/len(text))
		body := `{"event_id":"018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f","user_id":"u","event_type":"PROMO","title":"a < b",` +
			`"source":"s","channel":["push"],"timestamp":"2026-01-01T00:00:00Z","other":"<` + "\u2029" + `>","metadata":{"html":"` + html + `"}}`
		root, err := Parse([]byte(body), 1_767_300_000_000)
		must.OK(t, err)
		due, err := root.FollowUp(&FollowUp{
			EventID: FollowID(root.ID, 1), Step: 1, Channels: []Channel{Email}, At: 1, Unless: UnlessRead, Reason: ReasonEscalated,
		})
		must.OK(t, err)
		stored, err := ParseStored(due.Event.Body)
		switch {
		case err != nil:
			t.Errorf("a follow-up with %q cannot be read: %v", text, err)
		case stored.Title != root.Title || stored.Metadata.Get("html").Text != root.Metadata.Get("html").Text || stored.ID != due.Event.ID || stored.Follows == nil:
			t.Errorf("a follow-up with %q was stored as %s", text, due.Event.Body)
		case len(due.Event.Body) > len(root.Body)+512:
			t.Errorf("a follow-up with %q has %d bytes, its root %d", text, len(due.Event.Body), len(root.Body))
		}
	}
}
