package notify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
)

// A digest's messages have a bound of items and one of bytes. Each has an id of its own that
// follows from its first item, and counts once.
//
// Promise(notify-worker/large-digests): A digest goes out in messages of at most 100 items and 128 KiB
// of text; each is cut once and comes again with its id and items.
func TestADigestIsCutIntoMessages(t *testing.T) {
	for name, c := range map[string]struct {
		items, bytes int
		want         []int // items of each message
	}{
		"at the bound of items":        {MaxDigestItems, 300, []int{MaxDigestItems}},
		"one above it":                 {MaxDigestItems + 1, 300, []int{MaxDigestItems, 1}},
		"many":                         {3*MaxDigestItems + 7, 300, []int{MaxDigestItems, MaxDigestItems, MaxDigestItems, 7}},
		"at the bound of bytes":        {2, MaxDigestBytes / 2, []int{2}},
		"a byte above it":              {3, MaxDigestBytes/2 + 1, []int{1, 1, 1}},
		"items that are above it each": {2, MaxDigestBytes + 1, []int{1, 1}},
	} {
		s := newScene()
		var items []Due
		for n := range c.items + 1 {
			e := *s.event
			e.ID, e.Title, e.Body = idOf(n), fmt.Sprint("Order ", n), make([]byte, c.bytes)
			if n == 0 { // the first one is not sent: it fills no message
				e.ExpiresAt = s.now
			}
			e.Print = s.set.Policy.Print(&e)
			items = append(items, Due{Event: &e, Turn: Turn{Number: 1}, DueAt: s.now, DigestKey: "k", Slot: s.now})
		}
		first := slices.IndexFunc(items, func(d Due) bool { return d.Event.ExpiresAt != 0 })
		records := DecideDigest(s.set, &s.prefs, s.state, items, nil, s.now)
		var got []int
		var id uuid.UUID
		for i := range records {
			r := &records[i]
			s.state.Fold(r)
			if r.Outcome != Now {
				continue
			}
			if r.DigestID != id {
				opens := r.EventID
				if len(got) == 0 {
					opens = items[first].Event.ID
				}
				if id = DigestID("u", "k", s.now, opens); r.DigestID != id {
					t.Errorf("%s: message %d has the id %v, want %v", name, len(got), r.DigestID, id)
				}
				got = append(got, 0)
			}
			got[len(got)-1]++
		}
		if !slices.Equal(got, c.want) || len(s.state.Sends) != len(c.want) {
			t.Errorf("%s: messages of %v items, want %v; %d are counted", name, got, c.want, len(s.state.Sends))
		}
	}
}
