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
	// MaxDigestCounted bounds the items of a message that shows some of them and counts the
	// others.
	MaxDigestCounted = 1000
	MaxDigestBytes   = 128 << 10 // of the events as they were posted; one event alone has at most [MaxBodyBytes]
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
	m := message{id: digestOf(first), show: set.Policy.DigestPolicyOf(first.DigestKey).Show}
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
	set.Policy.tellDigests(first, items, order, records)
	return records
}

// tellDigests keeps what each message of a digest says with the first of its items. order
// has the items of records.
func (p *Policy) tellDigests(first *Due, items []Due, order []int, records []Record) {
	for i := range records {
		id := records[i].DigestID
		if id == uuid.Nil || i > 0 && slices.ContainsFunc(records[:i], func(r Record) bool { return r.DigestID == id }) {
			continue
		}
		var of []*Notification
		for j := i; j < len(records); j++ {
			if records[j].DigestID == id {
				of = append(of, items[order[j]].Event)
			}
		}
		// A template that fails leaves its text out: the items say all.
		m, _ := p.DigestMessage(first.DigestKey, first.Event.User(), of)
		records[i].Facts.Digest = m
	}
}

// message is the message of a digest that items fill.
type message struct {
	id           uuid.UUID
	show         int // items that it shows; 0: all
	items, bytes int
}

// take returns the id of the message that has room for an item: this one, or the next.
func (m *message) take(item *Due) uuid.UUID {
	size, most := len(item.Event.Body), MaxDigestItems
	if m.show > 0 {
		most = MaxDigestCounted
		if m.items >= m.show {
			size = 0 // it is counted only
		}
	}
	if m.items == most || m.items > 0 && m.bytes+size > MaxDigestBytes {
		*m = message{id: digestOf(item), show: m.show}
		size = len(item.Event.Body)
	}
	m.items, m.bytes = m.items+1, m.bytes+size
	return m.id
}

// digestOf returns the id of the message that an item begins.
func digestOf(item *Due) uuid.UUID {
	return DigestID(item.Event.User(), item.DigestKey, item.Slot, item.Event.ID)
}

// decideItem decides one item of a digest.
func decideItem(set *Set, prefs *Preferences, state *State, item *Due, score Score, now engine.Millis) (made Record) {
	turn := item.Turn
	turn.Due = item.DueAt
	d := decisions.Get().(*decision)
	d.begin(set, prefs, state, item.Event, turn, score, now)
	d.item = item
	d.run(&made)
	return made
}

// digested sends an item of a digest, or postpones it to the end of the quiet hours.
func (d *decision) digested() bool {
	d.holds.quietApplies = d.policy.Quiet
	d.record.Facts.Sent.Keys = d.set.Policy.SentOf(d.event, nil).Keys
	d.alike = d.allAlike()
	end := d.anyHushed(d.allowed, d.now)
	if end <= d.now {
		d.open, _ = d.openChannels(func(c Channel) bool { return d.hushed(c, d.now) <= d.now })
		return d.sends(ReasonDigested)
	}
	d.wait = wait{Postponed, end, []string{ReasonDigested}, end, d.item.DigestKey}
	return false
}
