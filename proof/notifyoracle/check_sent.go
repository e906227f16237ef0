package notifyoracle

import (
	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// checkChannels looks at the channels of an event and of its follow-ups.
func (c *checker) checkChannels(e *notify.Notification) {
	if e.Follows != nil {
		return
	}
	met := map[notify.Channel]bool{}
	for step := range digestStep + 1 {
		id := e.ID
		if step > 0 {
			id = notify.FollowID(e.ID, step)
		}
		for _, r := range c.turns[id] {
			for _, channel := range r.Channels {
				if r.Outcome == notify.Now && met[channel] {
					c.violated(LawChannels, e.UserID, e.ID, "%v twice, at last by step %d", channel, step)
				}
				met[channel] = met[channel] || r.Outcome == notify.Now
			}
		}
	}
}

// checkDigests adds up what has one id.
func (c *checker) checkDigests(user string, records []*notify.Record) {
	messages := map[uuid.UUID][]*notify.Record{}
	for _, r := range records {
		if r.Outcome == notify.Now && r.DigestID != uuid.Nil {
			messages[r.DigestID] = append(messages[r.DigestID], r)
		}
	}
	for id, records := range messages {
		var items []Event
		for _, r := range records {
			items = append(items, Event{Notification: c.events[r.EventID]})
		}
		policy, got := &c.Sets[records[0].RuleVersion].Policy, records[0].Facts.Digest
		if !fits(items, digestOf(policy, got.Key).Show) {
			c.violated(LawDigest, user, records[0].EventID, "the digest %v has %d items, or too many bytes", id, len(items))
		}
		if want := shown(policy, got.Key, len(items)); got.Key != "" && (got.Show != want.Show || got.More != want.More) {
			c.violated(LawShown, user, records[0].EventID, "the digest %v of %d items shows %d and has %d more", id, len(items), got.Show, got.More)
		}
	}
}

// checkDispatches compares what went out with the NOWs.
func (c *checker) checkDispatches() {
	ids := map[uuid.UUID]map[uuid.UUID]bool{} // of the dispatches of an event
	for _, sent := range c.Sent {
		for _, id := range sent.Events {
			e := c.events[id]
			if e == nil {
				c.violated(LawKnown, "", id, "dispatched and never accepted")
				continue
			}
			for _, r := range c.turns[id] {
				if Withdrawn(r.Reasons) {
					c.violated(LawWithdraw, e.UserID, id, "it was %s %d ms before", r.Reasons[0], sent.At-r.DecidedAt)
				}
			}
			if e.ExpiresAt != 0 && sent.At >= e.ExpiresAt {
				c.violated(LawExpiry, e.UserID, id, "%d ms late", sent.At-e.ExpiresAt)
			}
			if ids[id] == nil {
				ids[id] = map[uuid.UUID]bool{}
			}
			ids[id][sent.ID] = true
		}
	}
	for _, e := range c.Events {
		want := uuid.Nil // no dispatch
		for _, r := range c.turns[e.ID] {
			if r.Outcome == notify.Now {
				want = e.ID
				if r.DigestID != uuid.Nil {
					want = r.DigestID
				}
			}
		}
		expired := e.ExpiresAt != 0 && c.End >= e.ExpiresAt
		switch got := ids[e.ID]; {
		case want != uuid.Nil && len(got) == 0 && c.End != 0 && !expired:
			c.violated(LawDispatch, e.UserID, e.ID, "it was not dispatched")
		case len(got) > 1 || len(got) == 1 && !got[want]:
			c.violated(LawDispatch, e.UserID, e.ID, "dispatched as %v, want %v", got, want)
		}
	}
}
