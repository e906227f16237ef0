package api

import (
	"context"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// lookUpRepeats marks the repeats that [Repeats] knows, and returns the ids of the events
// of which the ledger is to be asked. An event_id of another event is among these: the
// ledger alone refuses.
func (a *API) lookUpRepeats(ctx context.Context, first map[uuid.UUID]*entry, ids []uuid.UUID) []uuid.UUID {
	if a.ports.Repeats == nil || len(ids) == 0 {
		return ids
	}
	events := make([]*notify.Notification, len(ids))
	for i, id := range ids {
		events[i] = first[id].event
	}
	var asked []uuid.UUID
	for i, answer := range a.ports.Repeats.Lookup(ctx, postings(events)) {
		switch answer {
		case notify.RepeatKnown:
			first[ids[i]].repeat = true
		case notify.RepeatNew: // it is published
		default:
			asked = append(asked, ids[i])
		}
	}
	return asked
}

// remember tells [Repeats] what the broker keeps.
func (a *API) remember(events []*notify.Notification) {
	if a.ports.Repeats != nil && len(events) > 0 {
		a.ports.Repeats.Confirmed(postings(events))
	}
}

// postings names events. The content of one that cannot be read is zero, and is taken for
// no repeat.
func postings(events []*notify.Notification) []notify.Posting {
	all := make([]notify.Posting, len(events))
	for i, e := range events {
		content, _ := notify.ContentID(e.Body)
		all[i] = notify.Posting{EventID: e.ID, Content: content, User: e.UserID}
	}
	return all
}
