package notify

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
)

// Limits of a digest's message: brokers and senders refuse what is too large. What waits
// beyond them goes out at the same time in further messages.
const (
	MaxDigestItems = 100
	MaxDigestBytes = 128 << 10 // of the events as they were posted; one event alone has at most [MaxBodyBytes]
)

// CompareEvents orders the events of one user that are decided together: the urgent
// class first, then by timestamp, then by event_id. So the last free slot goes to
// the more important event.
func CompareEvents(a, b *Notification) int {
	if a.Type.Urgent() != b.Type.Urgent() {
		if a.Type.Urgent() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Timestamp, b.Timestamp), bytes.Compare(a.ID[:], b.ID[:]))
}

// DecideDigest returns the records of a digest's items in the order of
// [CompareEvents], in which they are folded. The items are those of one user, key
// and slot; scores are aligned with them. An item that no stage up to the rules'
// NEVER ends is sent with the others, under one digest_id ([DigestID]): caps and
// cooldown do not hold a digest, and it counts once. An item that the message has no room
// for begins the next one, which has an id of its own and counts too. Quiet hours postpone
// it, with Slot and DeferUntil at their end.
func DecideDigest(set *Set, prefs *Preferences, state *State, items []Due, scores []Score, now engine.Millis) []Record {
	if len(items) == 0 {
		return nil
	}
	if state == nil {
		state = &noState
	}
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return CompareEvents(items[a].Event, items[b].Event) })
	first := &items[order[0]]
	m := message{id: digestOf(first)}
	state = state.Clone()
	records := make([]Record, len(items))
	for i, at := range order {
		var score Score
		if at < len(scores) {
			score = scores[at]
		}
		records[i] = decideItem(set, prefs, state, &items[at], score, now)
		if records[i].Outcome == Now {
			records[i].DigestID = m.take(&items[at])
		}
		state.Fold(&records[i])
	}
	return records
}

// message is the message of a digest that items fill.
type message struct {
	id           uuid.UUID
	items, bytes int
}

// take returns the id of the message that has room for an item: this one, or the next.
func (m *message) take(item *Due) uuid.UUID {
	size := len(item.Event.Body)
	if m.items == MaxDigestItems || m.items > 0 && m.bytes+size > MaxDigestBytes {
		*m = message{id: digestOf(item)}
	}
	m.items, m.bytes = m.items+1, m.bytes+size
	return m.id
}

// digestOf returns the id of the message that an item begins.
func digestOf(item *Due) uuid.UUID {
	return DigestID(item.Event.UserID, item.DigestKey, item.Slot, item.Event.ID)
}

// decideItem decides one item of a digest.
func decideItem(set *Set, prefs *Preferences, state *State, item *Due, score Score, now engine.Millis) Record {
	turn := item.Turn
	turn.Due = item.DueAt
	d := decisions.Get().(*decision)
	d.begin(set, prefs, state, item.Event, turn, score, now)
	d.item = item
	return d.run()
}

// digested sends an item of a digest, or postpones it to the end of the quiet hours.
func (d *decision) digested() bool {
	d.holds.quietApplies = d.policy.Quiet
	d.alike = d.allAlike()
	end := d.anyHushed(d.now)
	if end <= d.now {
		d.open, _ = d.openChannels(func(c Channel) bool { return d.hushed(c, d.now) <= d.now })
		return d.sends(ReasonDigested)
	}
	d.wait = wait{Postponed, end, []string{ReasonDigested}, end, d.item.DigestKey}
	return false
}
