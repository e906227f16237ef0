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
	// Read is what the user did, one of [WasOpened], [WasClicked] and [WasDismissed]; 0: the
	// report is of the delivery alone. What was read was delivered.
	Read Reported
}

// reads are the statuses of reports that tell what the user did.
var reads = map[string]Reported{"OPENED": WasOpened, "CLICKED": WasClicked, "DISMISSED": WasDismissed}

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
//	status       DELIVERED, DELIVERY_FAILED, OPENED, CLICKED or DISMISSED
//	channel      one of [Channels]: the one that was used. Null and absent too, but of
//	             DELIVERED
//	at           when it was delivered or failed: RFC 3339 with an offset, year 1000 or
//	             later, at most [MaxFuture] after now; kept in milliseconds
//	error        at most [MaxDeliveryErrorRunes] characters, "", null or absent; none but
//	             of DELIVERY_FAILED
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
	r.Status, r.Read = p.status()
	r.Channel = p.usedChannel(r.Status == Delivered && r.Read == 0)
	r.At = p.past(fieldAt)
	r.Error = p.optionalText(fieldError, MaxDeliveryErrorRunes)
	if r.Status == Delivered && r.Error != "" {
		p.fault(fieldError, FaultErrorOfDelivered, "found a text, expected none with the status %s", Delivered)
	}
	return r
}

func (p *parser) status() (Status, Reported) {
	if !p.has(fieldStatus, String) {
		return 0, 0
	}
	name := p.fields[fieldStatus].Unquoted()
	if read := reads[string(name)]; read != 0 {
		return Delivered, read
	}
	s := ParseStatus(string(name))
	if s != Delivered && s != DeliveryFailed {
		p.fault(fieldStatus, FaultUnknownStatus, "found %s, expected %s, %s, OPENED, CLICKED or DISMISSED", engine.Quoted(name), Delivered, DeliveryFailed)
		return 0, 0
	}
	return s, 0
}

// usedChannel reads the channel that a sender used.
func (p *parser) usedChannel(required bool) Channel {
	wanted := p.set
	if required {
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
