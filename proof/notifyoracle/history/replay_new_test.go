package history

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
	"keyfold/proof/notifyoracle"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
)

// outside draws what comes beside the events of one user: cancellations, replacements and
// reports.
type outside struct {
	*history
	t       *testing.T
	user    string
	store   *memory.Ledger
	events  []*notify.Notification // that came
	coming  []uuid.UUID            // cancelled before they come
	reports map[uuid.UUID]notify.Reported
	seen    map[uuid.UUID]bool // decisions that were looked at
}

// delivery returns a cancellation now and then, nil otherwise.
func (o *outside) delivery(settler processor.Settler) *processor.Delivery {
	g := o.rng
	if !o.fresh || !g.chance(8) {
		return nil
	}
	c := &notify.Cancellation{User: o.user}
	switch {
	case len(o.events) == 0 || g.chance(4):
		c.Event = g.uuid()
		o.coming = append(o.coming, c.Event)
	case g.chance(4):
		c.Key = pick(g, []string{"k1", "k2"})
	default:
		c.Event = pick(g, o.events).ID
	}
	return &processor.Delivery{Cancel: c, At: o.now, Settler: settler}
}

// comes changes an event that comes: it may replace another one, or be cancelled already.
func (o *outside) comes(e *notify.Notification) {
	g := o.rng
	if o.fresh {
		switch {
		case len(o.coming) > 0 && g.chance(3):
			e.ID, o.coming = o.coming[0], o.coming[1:]
		case e.DedupeKey != "" && g.chance(6):
			e.Replaces.ByKey = true
		case len(o.events) > 0 && g.chance(8):
			e.Replaces.Event = pick(g, o.events).ID
		}
	}
	o.events = append(o.events, e)
}

// report lets senders report what they have of the user's NOWs, after it has looked at what
// follow-ups were told.
func (o *outside) report() {
	if !o.fresh {
		return
	}
	records := o.records()
	o.check(slices.DeleteFunc(slices.Clone(records), func(r notify.Record) bool { return o.seen[r.DecisionID] }))
	for i := range records {
		o.seen[records[i].DecisionID] = true
	}
	for i := range records {
		r := &records[i]
		if r.Outcome != notify.Now || !o.rng.chance(6) {
			continue
		}
		report := notify.Report{
			Event: r.EventID, Status: notify.Delivered, Channel: r.Channels[0], At: r.DecidedAt + engine.Millis(1+o.rng.IntN(1000)),
			Read: pick(o.rng, []notify.Reported{0, 0, notify.WasOpened, notify.WasClicked, notify.WasDismissed}),
		}
		if err := o.store.Apply(o.t.Context(), []notify.Report{report})[0]; err != nil {
			o.t.Errorf("a report of %v: %v", r.EventID, err)
		}
		o.reports[r.EventID] |= notify.WasDelivered | report.Read
	}
}

// check looks at what new records of follow-ups say of reports.
func (o *outside) check(records []notify.Record) {
	for i := range records {
		r := &records[i]
		if r.Facts.Root == uuid.Nil || r.Outcome == notify.Never && notifyoracle.Withdrawn(r.Reasons) {
			continue
		}
		want := notify.Reported(0)
		for _, id := range notifyoracle.StepsBefore(&notify.Follows{Root: r.Facts.Root, Step: r.Facts.Step}) {
			want |= o.reports[id]
		}
		if r.Facts.Reported != want {
			o.t.Errorf("step %d of %v was told %b, reported was %b", r.Facts.Step, r.Facts.Root, r.Facts.Reported, want)
		}
	}
}

// records returns the user's records, oldest first.
func (o *outside) records() (all []notify.Record) {
	for d, err := range o.store.Records(o.t.Context(), ledger.Filter{Oldest: true, User: o.user}) {
		must.OK(o.t, err)
		all = append(all, d.Record)
	}
	slices.SortFunc(all, func(a, b notify.Record) int { return int(a.Seq - b.Seq) })
	return all
}
