package notify

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"keyfold/engine"
)

// MaxDeliveryErrorRunes is the limit of a report's error, in characters.
const MaxDeliveryErrorRunes = 1000

// Reasons of the permanent errors of [Reports].
const (
	ReasonUnknownDecision = "unknown_decision" // no decision has the id
	ReasonNotNow          = "not_now"          // the decision was not to send
)

// Report is what a sender says of the delivery of a NOW.
type Report struct {
	Decision uuid.UUID // of the record; zero: Event names it
	Event    uuid.UUID // of the NOW's event, or the id of a digest: then it is of all its items
	Status   Status    // Delivered or DeliveryFailed
	Channel  Channel   // 0: unknown, of DeliveryFailed only
	At       engine.Millis
	Error    string // of DeliveryFailed
}

// Reports takes delivery reports.
type Reports interface {
	// Apply writes reports, each where it follows what is known ([Delivery.Follows]),
	// so that order and repetition do not matter. It returns one error per report: nil
	// once it is durable, a permanent one with [ReasonUnknownDecision] or [ReasonNotNow],
	// or another one after which the report is to be applied again. Whether the dispatch
	// is marked does not matter and does not change: the next dispatch has the same id.
	Apply(ctx context.Context, reports []Report) []error
}

// ParseReport reads one report, a JSON object of at most [MaxBodyBytes]:
//
//	decision_id  a UUID in its form of 36 characters, not the zero one; null or absent:
//	             event_id names the decision
//	event_id     as decision_id, of the event or of the digest. Exactly one of the two
//	status       DELIVERED or DELIVERY_FAILED
//	channel      one of [Channels]: the one that was used. Of DELIVERY_FAILED null and
//	             absent too
//	at           when it was delivered or failed: RFC 3339 with an offset, year 1000 or
//	             later, at most [MaxFuture] after now; kept in milliseconds
//	error        at most [MaxDeliveryErrorRunes] characters, "", null or absent; of
//	             DELIVERED none
//
// Other keys are ignored. Errors are those of [Parse].
func ParseReport(body []byte, now engine.Millis) (Report, error) {
	if err := tooLarge(body); err != nil {
		return Report{}, err
	}
	p := parser{now: now, known: reportFields}
	if _, err := p.read(body); err != nil {
		return Report{}, err
	}
	r := p.report()
	if err := p.faults.err(); err != nil {
		return Report{}, err
	}
	return r, nil
}

func (p *parser) report() Report {
	r := Report{
		Decision: p.id(fieldDecisionID, FaultBadDecisionID),
		Event:    p.id(fieldEventID, FaultBadEventID),
	}
	switch decision, event := kindOf(p.fields[fieldDecisionID].Text) > Null, kindOf(p.fields[fieldEventID].Text) > Null; {
	case decision && event:
		p.fault(fieldDecisionID, FaultTwoIDs, "found it and event_id, expected one of them")
	case !decision && !event:
		p.fault(fieldDecisionID, engine.ReasonMissingField, "found neither it nor event_id, expected one of them")
	}
	r.Status = p.status()
	r.Channel = p.usedChannel(r.Status)
	r.At = p.past(fieldAt)
	r.Error = p.optionalText(fieldError, MaxDeliveryErrorRunes)
	if r.Status == Delivered && r.Error != "" {
		p.fault(fieldError, FaultErrorOfDelivered, "found a text, expected none with the status %s", Delivered)
	}
	return r
}

func (p *parser) status() Status {
	if !p.has(fieldStatus, String) {
		return 0
	}
	name := p.fields[fieldStatus].Unquoted()
	s := ParseStatus(string(name))
	if s != Delivered && s != DeliveryFailed {
		p.fault(fieldStatus, FaultUnknownStatus, "found %s, expected %s or %s", engine.Quoted(name), Delivered, DeliveryFailed)
		return 0
	}
	return s
}

// usedChannel reads the channel that a sender used.
func (p *parser) usedChannel(s Status) Channel {
	wanted := p.set
	if s == Delivered {
		wanted = p.has
	}
	if !wanted(fieldChannel, String) {
		return 0
	}
	name := p.fields[fieldChannel].Unquoted()
	c := ParseChannel(string(name))
	if c == 0 {
		p.fault(fieldChannel, FaultUnknownChannel, "found %s, expected one of %v", engine.Quoted(name), Channels)
	}
	return c
}

// Delivery returns what the report says of its decisions.
func (r *Report) Delivery() Delivery {
	return Delivery{Status: r.Status, Channel: r.Channel, At: r.At, Error: r.Error}
}

// Unknown returns the permanent error of a report whose id no decision has.
func (r *Report) Unknown() error {
	if r.Decision != uuid.Nil {
		return engine.PermanentError(ReasonUnknownDecision, fmt.Errorf(
			"no decision has the decision_id %s: report an id of the dispatch, while its record is kept", r.Decision))
	}
	return engine.PermanentError(ReasonUnknownDecision, fmt.Errorf(
		"no event and no digest has the id %s: report an id of the dispatch, while its event key is kept", r.Event))
}

// NotNow returns the permanent error of a report of a decision that was not to send.
func (r *Report) NotNow(decision uuid.UUID, o Outcome) error {
	return engine.PermanentError(ReasonNotNow, fmt.Errorf(
		"decision %s is %s and was not dispatched: report the decision that is NOW", decision, o))
}
