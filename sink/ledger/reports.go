package ledger

import (
	"slices"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// MaxUnreported bounds what a ledger counts of decisions without a report.
const MaxUnreported = 10_000

// Reported is a decision that reports name, as it is stored.
type Reported struct {
	Decision uuid.UUID
	Event    uuid.UUID
	Digest   uuid.UUID
	Newest   bool // of its event's turns
	Outcome  notify.Outcome
	Erased   bool // its user is: no text is kept of it
	User     string
	Type     notify.EventType
	Delivery notify.Delivery

	before notify.Delivery // as it was stored
}

// NamedBy returns the ids by which reports name decisions: of decisions, and of events
// or digests.
func NamedBy(reports []notify.Report) (decisions, events []uuid.UUID) {
	for i := range reports {
		if r := &reports[i]; r.Decision != uuid.Nil {
			decisions = append(decisions, r.Decision)
		} else {
			events = append(events, r.Event)
		}
	}
	return decisions, events
}

// Report applies reports to the decisions that they name. It returns the answers of
// [notify.Reports] and the decisions whose delivery has changed.
func Report(reports []notify.Report, named []Reported) (answers []error, changed []*Reported) {
	byDecision, byEvent := map[uuid.UUID][]*Reported{}, map[uuid.UUID][]*Reported{}
	for i := range named {
		d := &named[i]
		d.before = d.Delivery
		byDecision[d.Decision] = []*Reported{d}
		if !d.Newest {
			continue
		}
		byEvent[d.Event] = append(byEvent[d.Event], d)
		if d.Digest != uuid.Nil {
			byEvent[d.Digest] = append(byEvent[d.Digest], d)
		}
	}
	answers = make([]error, len(reports))
	met := map[*Reported]bool{}
	for i := range reports {
		r := &reports[i]
		targets := byEvent[r.Event]
		if r.Decision != uuid.Nil {
			targets = byDecision[r.Decision]
		}
		if len(targets) == 0 {
			answers[i] = r.Unknown()
		}
		for _, d := range targets {
			switch {
			case d.Outcome != notify.Now:
				answers[i] = r.NotNow(d.Decision, d.Outcome)
			case d.take(r) && !met[d]:
				met[d] = true
				changed = append(changed, d)
			}
		}
	}
	return answers, changed
}

// take takes in what a report says of the delivery, and reports whether that changed
// anything.
func (d *Reported) take(r *notify.Report) bool {
	said := *r
	if d.Erased {
		said.Error = ""
	}
	return d.Delivery.Take(&said)
}

// Responding returns the users of whom deliveries have changed so that their responses do,
// sorted. Those of erased users are not kept.
func Responding(changed []*Reported) (users []string) {
	for _, d := range changed {
		if !d.Erased && d.responds() {
			users = append(users, d.User)
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// responds reports whether a change of the delivery counts as a response.
func (d *Reported) responds() bool {
	var r notify.Responses
	r.Take(d.Type, &d.before, &d.Delivery)
	return r.At != 0
}

// Respond takes changed deliveries of users into their responses.
func Respond(changed []*Reported, of map[string]*notify.Responses) {
	for _, d := range changed {
		if r := of[d.User]; r != nil && !d.Erased {
			r.Take(d.Type, &d.before, &d.Delivery)
		}
	}
}
