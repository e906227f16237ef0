package notifyoracle

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Item is a deferral of a digest.
type Item struct {
	Event    Event
	Turn     int
	Spent    []uuid.UUID
	Key      string // of the digest
	Reported notify.Reported
}

// A message of a digest has at most so many items. It has at most so many bytes of their
// posted texts, or one item.
const (
	itemsOfAMessage = 100
	bytesOfAMessage = 131_072
)

// fits reports whether a message may have these items. Those beyond the ones that it shows
// (0: it shows all) take no room.
func fits(items []Event, show int) bool {
	if show > 0 {
		items = items[:min(show, len(items))]
	}
	bytes := 0
	for _, e := range items {
		bytes += len(e.Body)
	}
	return len(items) <= itemsOfAMessage && (len(items) == 1 || bytes <= bytesOfAMessage)
}

// Digest says what must be decided of a digest's items, and keeps it: urgent types
// first, then by time and id. Those that are sent fill one message after the other. id names
// a message by the event that begins it: of the first one, the first of all items.
func (u *User) Digest(set *Set, items []Item, id func(first uuid.UUID) uuid.UUID, now engine.Millis) (all []Decision) {
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b Item) int { return order(a.Event, b.Event) })
	begins := items[0].Event.ID
	var message []Event
	for _, item := range items {
		first := begins
		if !fits(append(slices.Clone(message), item.Event), digestOf(&set.Policy, item.Key).Show) {
			first = item.Event.ID
		}
		d := u.DigestItem(set, item, id(first), now)
		switch {
		case d.Outcome != notify.Now:
		case first != begins:
			begins, message = first, []Event{item.Event}
		default:
			message = append(message, item.Event)
		}
		all = append(all, d)
	}
	show(set, all, items[0].Key)
	return all
}

// show says of the first item of each message how many are shown.
func show(set *Set, all []Decision, key string) {
	first, sizes := map[uuid.UUID]*Decision{}, map[uuid.UUID]int{}
	for i := range all {
		d := &all[i]
		if d.Outcome != notify.Now {
			continue
		}
		if sizes[d.DigestID]++; first[d.DigestID] == nil {
			first[d.DigestID] = d
		}
	}
	for id, d := range first {
		d.Shown = shown(&set.Policy, key, sizes[id])
	}
}

// shown is how many of a message's items are shown: the first ones.
func shown(p *notify.Policy, key string, n int) *Shown {
	show := digestOf(p, key).Show
	if show == 0 {
		show = n
	}
	return &Shown{key, min(n, show), n - min(n, show)}
}

// digestOf is what the policy says of the digests of a key.
func digestOf(p *notify.Policy, key string) notify.DigestPolicy {
	if digests, own := p.Digests[key]; own {
		return digests
	}
	return p.Digests[""]
}

func order(a, b Event) int {
	if a.Type.Urgent() != b.Type.Urgent() {
		if a.Type.Urgent() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Timestamp, b.Timestamp), bytes.Compare(a.ID[:], b.ID[:]))
}

// DigestItem says what must be decided of the next item of a digest.
func (u *User) DigestItem(set *Set, item Item, id uuid.UUID, now engine.Millis) Decision {
	t := u.begin(set, item.Event, Turn{Number: item.Turn, Spent: item.Spent, Reported: item.Reported}, now)
	t.item = true
	if t.ended() {
		return t.end()
	}
	w := &waiter{wish: t.wish, quiet: t.policy.Quiet}
	if awake := t.awake(w); len(awake) > 0 {
		t.sendOn(awake, notify.ReasonDigested)
		t.decision.DigestID = id
		return t.end()
	}
	// It moves to a slot at the end of quiet hours.
	end := t.anyAwake(t.allowed, t.now)
	t.decision.Outcome, t.decision.DeferUntil, t.decision.Slot, t.decision.DigestKey = notify.Postponed, end, end, item.Key
	t.expiresFirst()
	return t.end()
}
