package notify

import (
	"cmp"
	"encoding/json"
	"strings"

	"keyfold/engine"
)

// Status is what is known of the delivery of a decision.
type Status uint8

// The statuses; 0 is that of a LATER. The first three are in the order in which a
// status may follow another one.
const (
	Pending        Status = iota + 1 // of a NOW: no report has come
	DeliveryFailed                   // the sender gave up, or the event expired before its dispatch
	Delivered                        // the sender delivered it
	Suppressed                       // of a NEVER: there is nothing to deliver
	statusCount    = iota + 1
)

var statusNames = [statusCount]string{"", "PENDING", "DELIVERY_FAILED", "DELIVERED", "SUPPRESSED"}

// String returns the status' name in JSON, "" for none.
func (s Status) String() string { return nameOf(statusNames[:], int(s)) }

// ParseStatus returns the status of a name, 0 where there is none.
func ParseStatus(name string) Status { return Status(indexOf(statusNames[:], name)) }

// StatusOf returns the status with which a decision begins.
func StatusOf(o Outcome) Status {
	switch o {
	case Now:
		return Pending
	case Never:
		return Suppressed
	default:
		return 0
	}
}

// ErrorExpired is the delivery error of a NOW whose event expired before its
// dispatch: it was not sent.
const ErrorExpired = "EXPIRED_BEFORE_DISPATCH"

// Delivery is what is known of the delivery of a decision.
type Delivery struct {
	Status  Status
	Channel Channel       // that the sender used; 0: unknown
	At      engine.Millis // when the status was reached, by the sender's clock; 0: unknown
	Error   string        // of DELIVERY_FAILED
	// When the user first opened, clicked or dismissed it; 0: not reported.
	Opened, Clicked, Dismissed engine.Millis
}

// Reported returns what was reported.
func (d *Delivery) Reported() (r Reported) {
	for _, what := range []struct {
		bit Reported
		is  bool
	}{
		{WasDelivered, d.Status == Delivered}, {WasOpened, d.Opened != 0}, {WasClicked, d.Clicked != 0}, {WasDismissed, d.Dismissed != 0},
	} {
		if what.is {
			r |= what.bit
		}
	}
	return r
}

// Take takes in what a report says of a delivery. The order and the number of reports do
// not matter. It reports whether anything has changed.
func (d *Delivery) Take(r *Report) (changed bool) {
	before := *d
	said := r.Delivery()
	if said.Follows(*d) {
		said.Opened, said.Clicked, said.Dismissed = d.Opened, d.Clicked, d.Dismissed
		*d = said
	}
	if d.Status == Delivered {
		first := map[Reported]*engine.Millis{WasOpened: &d.Opened, WasClicked: &d.Clicked, WasDismissed: &d.Dismissed}[r.Read]
		if first != nil && (*first == 0 || r.At < *first) {
			*first = r.At
		}
	}
	return *d != before
}

// Follows reports whether a delivery replaces an earlier known one of the same
// decision. It is a total order, so that reports come to the same whatever their order
// and number: DELIVERED follows DELIVERY_FAILED, which follows PENDING; of two DELIVERED
// the earlier one stays, of two failures the later one; then the one with the greater
// channel, and the one with the greater text. Nothing follows SUPPRESSED.
func (d Delivery) Follows(known Delivery) bool {
	if known.Status == 0 || known.Status == Suppressed || d.Status == Suppressed {
		return false
	}
	at := cmp.Compare(d.At, known.At)
	if d.Status == Delivered {
		at = -at
	}
	return cmp.Or(cmp.Compare(d.Status, known.Status), at, cmp.Compare(d.Channel, known.Channel), strings.Compare(d.Error, known.Error)) > 0
}

type deliveryJSON struct {
	Status    Status  `json:"status"`
	Channel   Channel `json:"channel,omitzero"`
	At        instant `json:"at,omitzero"`
	Error     string  `json:"error,omitzero"`
	Opened    instant `json:"opened_at,omitzero"`
	Clicked   instant `json:"clicked_at,omitzero"`
	Dismissed instant `json:"dismissed_at,omitzero"`
}

// MarshalJSON returns {"status":"DELIVERED","channel":"push","at":"...","error":"..."}
// without what is not known; null without a status.
func (d Delivery) MarshalJSON() ([]byte, error) {
	if d.Status == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(deliveryJSON{d.Status, d.Channel, instant(d.At), d.Error, instant(d.Opened), instant(d.Clicked), instant(d.Dismissed)})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (d *Delivery) UnmarshalJSON(b []byte) error {
	var form deliveryJSON
	if err := json.Unmarshal(b, &form); err != nil {
		return err
	}
	*d = Delivery{
		form.Status, form.Channel, engine.Millis(form.At), form.Error,
		engine.Millis(form.Opened), engine.Millis(form.Clicked), engine.Millis(form.Dismissed),
	}
	return nil
}
