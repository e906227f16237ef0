package processor

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// tellReports tells follow-ups what was reported of the steps before them.
func (p *planner) tellReports(items []notify.Due) {
	for i := range items {
		f := items[i].Event.Follows
		if f == nil {
			continue
		}
		for _, id := range f.Before() {
			items[i].Turn.Reported |= p.work.reported[id]
		}
	}
}

// replace ends what an event replaces, and gives it the place of the one that is due first.
// It returns the indexes of the records.
func (p *planner) replace(item *notify.Due, now engine.Millis) (records []int) {
	w, e := p.work, item.Event
	all := p.endings(func(n *notify.Notification) bool { return e.Replaces.Of(e, n) })
	for i := range all {
		d := &all[i]
		if d.Event.Follows == nil && item.Turn.Takes == nil && d.Event.ID != e.ID {
			item.Turn.Takes = &notify.Place{DueAt: d.DueAt, DigestKey: d.DigestKey, Slot: d.Slot, Reserved: w.state.Keeps(d.Event.ID)}
			if d.DigestKey != "" {
				item.Turn.Takes.Slot = d.DueAt // quiet hours may have moved it
			}
		}
		records = append(records, p.end(d, notify.ReasonReplaced, e.ID, now))
	}
	return records
}

// endings returns those of the deferrals that wait which are so, by their time.
func (p *planner) endings(are func(*notify.Notification) bool) (all []notify.Due) {
	for _, d := range p.work.waiting {
		if are(d.Event) {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b notify.Due) int {
		return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), compareItems(a, b))
	})
	return all
}

// end adds the record that ends a deferral.
func (p *planner) end(d *notify.Due, reason string, by uuid.UUID, now engine.Millis) int {
	w := p.work
	d.Event.Print = p.set.Policy.Print(d.Event)
	turn := d.Turn
	turn.Due = d.DueAt
	return p.add(notify.End(p.set, &w.standing.Preferences, &w.state, d.Event, turn, reason, by, max(now, w.state.DecidedAt)), d.Event, nil)
}

// cancel ends what waits, and keeps an event that has not come yet from being sent. Of one
// that was decided and does not wait, the answer is its key.
func (p *planner) cancel(c *notify.Cancellation, now engine.Millis) (a answer) {
	for _, d := range p.endings(c.Of) {
		a.records = append(a.records, p.end(&d, notify.ReasonCancelled, uuid.Nil, now))
	}
	if c.Event == uuid.Nil {
		return a
	}
	key := p.work.known[c.Event]
	if at, ok := p.planned[c.Event]; ok {
		key = keyOf(&p.work.change.Decided[at].Record)
	}
	switch {
	case key.Outcome != 0 && len(a.records) == 0:
		a.repeats = key
	case key.Outcome == 0 && len(a.records) == 0:
		e := c.Unknown(max(now, p.work.state.DecidedAt))
		a.records = append(a.records, p.end(&notify.Due{Event: e}, notify.ReasonCancelled, uuid.Nil, now))
	}
	return a
}
