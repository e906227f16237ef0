package ledger

import (
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
	Delivery notify.Delivery
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
