package processor

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Outcome is what became of one delivery.
type Outcome uint8

const (
	// Decided: the records are stored, and each NOW was handed over or has expired.
	// A deferral that quiet hours postponed is decided too: its new time is stored.
	Decided Outcome = iota + 1
	// Known: the turn was decided before. The recorded decision is the answer.
	Known
	// Dead: it can never be decided; Verdict.Err says why.
	Dead
	// Retry: it failed for now. Records that are stored stay; see [Verdict.Stored].
	Retry
	// Park: what the work needs is away, or another session keeps its user locked. It
	// comes again with no attempt used.
	Park
	// Unsettled: nothing was done, and no attempt was used: the process is stopping,
	// or its settings are at fault.
	Unsettled

	outcomeCount = iota + 1
)

var outcomeNames = [outcomeCount]string{"", "decided", "known", "dead", "retry", "park", "unsettled"}

// String returns the outcome's name in metrics and reports.
func (o Outcome) String() string {
	if int(o) >= len(outcomeNames) {
		return ""
	}
	return outcomeNames[o]
}

// Verdict is what became of a delivery.
type Verdict struct {
	Outcome Outcome
	Records []notify.Record // those that this flush stored
	Key     notify.Known    // where the event was decided before: its key
	Err     error           // of Dead, Retry, Park and Unsettled
}

// Stored reports whether a decision is stored, by this flush or before: of a delivery
// that is not settled with [Decided] or [Known], only the hand-over is missing.
func (v *Verdict) Stored() bool { return len(v.Records) > 0 || v.Key.Outcome != 0 }

// Settler takes the verdict on one delivery back to where it came from. Settle is
// called exactly once per delivery, from any goroutine, and must not block.
type Settler interface{ Settle(Verdict) }

// SettlerFunc is a function as a [Settler].
type SettlerFunc func(Verdict)

// Settle calls the function.
func (f SettlerFunc) Settle(v Verdict) { f(v) }

// Delivery is what is to be decided: a new event, or deferrals.
type Delivery struct {
	Event *notify.Notification // nil: deferrals
	// Due is one deferral, or all that a claim returned of one digest.
	Due []notify.Due
	// Cancel asks to end what waits, in place of Event and Due; nil: it does not.
	Cancel *notify.Cancellation
	// At is the clock of the decision; 0: the processor's, read once per flush.
	At engine.Millis
	// Redelivered: the event may have been decided before. Without it, the key of a new
	// event is not asked for where the user's state is cached.
	Redelivered bool
	// Attempt, Last and RetryDelay are for the log: which attempt it is, from 1, whether none
	// follows, of which the source tells then, and how long it waits before the next one.
	// 0: the source does not say.
	Attempt    int
	Last       bool
	RetryDelay time.Duration
	Settler    Settler

	live   bool // At is the processor's clock
	finish bool // of a replay: decides all deferrals of its user
}

// Batch is deliveries of one user, in the order in which they came.
type Batch struct {
	User       string
	Deliveries []Delivery
}

// items returns the turns that a delivery asks for, in the order of decisions.
func (d *Delivery) items() []notify.Due {
	if d.Event != nil {
		return []notify.Due{{Event: d.Event}}
	}
	return d.Due
}

// User returns whose delivery it is.
func (d *Delivery) User() string {
	if d.Cancel != nil {
		return d.Cancel.User
	}
	return d.items()[0].Event.User()
}

// repeats reports whether a delivery may ask for what was decided before.
func (d *Delivery) repeats() bool { return d.Event == nil || d.Redelivered || d.endsOthers() }

// endsOthers reports whether a delivery ends what waits.
func (d *Delivery) endsOthers() bool {
	return d.Cancel != nil || d.Event != nil && d.Event.Replaces.Any()
}

// Bytes estimates what a delivery keeps in memory.
func (d *Delivery) Bytes() int {
	const fixed = 1024 // of an event beside its body
	n := fixed
	for _, item := range d.items() {
		n += fixed + 2*len(item.Event.Body)
	}
	return n
}

// sortItems puts turns into the order in which a user's are decided: the urgent
// class first, then timestamp and event_id.
func sortItems(items []notify.Due) { slices.SortStableFunc(items, compareItems) }

func compareItems(a, b notify.Due) int { return notify.CompareEvents(a.Event, b.Event) }

// sortDeliveries puts one user's deliveries into the order of their decisions:
// their clock, then as [sortItems]. A digest stands where its first item does.
func sortDeliveries(all []Delivery) {
	for i := range all {
		sortItems(all[i].Due)
	}
	slices.SortStableFunc(all, func(a, b Delivery) int {
		if c := cmp.Compare(a.At, b.At); c != 0 || a.finish || b.finish {
			return c
		}
		switch { // a cancellation is last: it ends what comes with it, too
		case b.Cancel != nil:
			return -1
		case a.Cancel != nil:
			return 1
		}
		return compareItems(a.items()[0], b.items()[0])
	})
	replacementsLast(all)
}

// replacementsLast moves an event that replaces others behind those of them that come with it.
func replacementsLast(all []Delivery) {
	for i := 0; i < len(all); i++ {
		e := all[i].Event
		if e == nil || !e.Replaces.Any() {
			continue
		}
		for j := len(all) - 1; j > i; j-- {
			if o := all[j].Event; o != nil && !o.Replaces.Any() && e.Replaces.Of(e, o) {
				moved := all[i]
				copy(all[i:j], all[i+1:j+1])
				all[j] = moved
				i--
				break
			}
		}
	}
}

// endOfTime is the clock of a replay's end: every deferral is due before it.
const endOfTime = engine.Millis(math.MaxInt64)

// eventIDs returns the ids of the events whose keys deliveries need, each once.
func eventIDs(all []Delivery) []uuid.UUID {
	var ids set
	for i := range all {
		if c := all[i].Cancel; c != nil {
			ids.add(c.Event)
		}
		for _, item := range all[i].items() {
			ids.add(item.Event.ID)
		}
	}
	return ids.ids
}

// reportsWanted returns the events whose reports can end follow-ups among the deliveries.
func reportsWanted(all []Delivery) []uuid.UUID {
	var ids set
	for i := range all {
		for _, item := range all[i].items() {
			if f := item.Event.Follows; f != nil {
				ids.add(f.Before()...)
			}
		}
	}
	return ids.ids
}

// set has ids, each once, in the order in which they came.
type set struct {
	ids []uuid.UUID
	met map[uuid.UUID]bool
}

func (s *set) add(ids ...uuid.UUID) {
	if s.met == nil {
		s.met = map[uuid.UUID]bool{}
	}
	for _, id := range ids {
		if id != uuid.Nil && !s.met[id] {
			s.met[id] = true
			s.ids = append(s.ids, id)
		}
	}
}
