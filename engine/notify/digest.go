package notify

import (
	"bytes"
	"cmp"
	"slices"

	"keyfold/engine"
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
// cooldown do not hold a digest, and it counts once. Quiet hours postpone it, with
// Slot and DeferUntil at their end.
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
	id := DigestID(first.Event.UserID, first.DigestKey, first.Slot, first.Event.ID)
	state = state.Clone()
	records := make([]Record, len(items))
	for i, at := range order {
		var score Score
		if at < len(scores) {
			score = scores[at]
		}
		decideItem(&records[i], set, prefs, state, &items[at], score, now)
		if records[i].Outcome == Now {
			records[i].DigestID = id
		}
		state.Fold(&records[i])
	}
	return records
}

// decideItem decides one item of a digest.
func decideItem(r *Record, set *Set, prefs *Preferences, state *State, item *Due, score Score, now engine.Millis) {
	turn := item.Turn
	turn.Due = item.DueAt
	d := begin(r, set, prefs, state, item.Event, turn, score, now)
	if d.ended() || d.repeats() {
		return
	}
	d.measure()
	d.match()
	switch {
	case d.says(Never):
		r.RuleID, r.Facts.RuleName = d.action.Rule, d.action.Name
		d.never(d.action.Reason)
	case d.policy.Quiet && r.Facts.QuietEnd != 0:
		d.action = nil
		if d.waits(Postponed, r.Facts.QuietEnd, []string{ReasonDigested}); r.Outcome == Postponed {
			r.Slot, r.DigestKey = r.DeferUntil, item.DigestKey
		}
	default:
		d.sends(ReasonDigested)
	}
}
