package api

import (
	"cmp"
	"fmt"
	"net/http"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/source/httpapi"
)

// entry is one notification of a request.
type entry struct {
	event  *notify.Notification // nil: it does not parse
	faults []notify.Fault
	repeat bool         // it was decided before, or stands earlier in the request
	known  notify.Known // of the decision; zero: none is known
	person string       // the user that the event's is an alias of, or that one itself; "": it was not looked up
}

// owner returns whose the event is, as far as that was looked up.
func (e *entry) owner() string { return cmp.Or(e.person, e.event.UserID) }

// refused reports whether an entry goes no further.
func (e *entry) refused() bool { return len(e.faults) > 0 }

// request is the notifications of a POST, in its order.
type request struct {
	entries []entry
	faulty  int  // entries at fault
	large   bool // one of them is too large
	barred  bool // one of them is none that the token may post
}

// post answers a POST of notifications.
func (a *API) post(r *httpapi.Request) *httpapi.Answer {
	partial, refused := r.Partial()
	if refused != nil {
		return refused
	}
	if partial && a.ports.Publisher == nil {
		return refuse(http.StatusBadRequest, "", "bad_parameter", "partial=true is not served here: leave it out, and correct or leave out the notifications that are refused")
	}
	q, refused := a.read(r)
	if refused != nil {
		return refused
	}
	if q.faulty > 0 && (!partial || !r.Separable()) {
		a.counts.Refused.Add(int64(q.faulty))
		return q.refusal(q.status())
	}
	if a.ports.Publisher != nil {
		return a.publish(r, q, partial)
	}
	return a.decide(r, q)
}

// read parses the body.
func (a *API) read(r *httpapi.Request) (*request, *httpapi.Answer) {
	now := engine.Now()
	q := &request{}
	refused := r.Each(func(_ int, text []byte, err error) {
		e := entry{}
		if err == nil {
			e.event, err = notify.Parse(text, now)
		}
		if err == nil && a.ports.Publisher != nil {
			err = Sendable(e.event)
		}
		if err != nil {
			e.faults = FaultsOf(err)
			q.faulty++
			q.large = q.large || engine.ReasonOf(err) == engine.ReasonBodyTooLarge
		} else if f := r.Forbidden(e.event.Source, e.event.Type.String()); f != nil {
			e.faults = []notify.Fault{{Field: f.Field, Reason: f.Reason, Text: f.Error}}
			q.faulty++
			q.barred = true
		} else if e.event.Replaces.Any() && r.Limited() {
			e.faults = []notify.Fault{replacesForbidden}
			q.faulty++
			q.barred = true
		}
		q.entries = append(q.entries, e)
	})
	return q, refused
}

// replacesForbidden is the fault of a notification that replaces others under a token which
// may not post all: of what waits, the sources and types are not known here.
var replacesForbidden = notify.Fault{
	Field: "replaces", Reason: "replaces_forbidden",
	Text: "replaces: the token is limited to sources or types, and what it replaces may be another's: leave it out and cancel what waits (POST /v1/cancellations), or use another token",
}

// Sendable returns why an event that parses cannot be published: the worker parses it
// again, with the event_id that was made for it.
func Sendable(e *notify.Notification) error {
	if len(e.Body) <= notify.MaxBodyBytes {
		return nil
	}
	return engine.PermanentError(engine.ReasonBodyTooLarge, fmt.Errorf(
		"body: found %d bytes once event_id is filled in, expected at most %d", len(e.Body), notify.MaxBodyBytes))
}

// events returns the notifications that are not at fault and not repeats.
func (q *request) events() (events []*notify.Notification) {
	for i := range q.entries {
		if e := &q.entries[i]; !e.refused() && !e.repeat {
			events = append(events, e.event)
		}
	}
	return events
}

// status is that of a request whose notifications are at fault.
func (q *request) status() int {
	switch {
	case q.large:
		return http.StatusRequestEntityTooLarge
	case q.barred:
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

// refusal names all faults of a request.
func (q *request) refusal(status int) *httpapi.Answer {
	var faults []httpapi.Fault
	for i := range q.entries {
		for _, f := range q.entries[i].faults {
			faults = append(faults, httpapi.Fault{Index: &i, Field: f.Field, Reason: f.Reason, Error: f.Text})
		}
	}
	return httpapi.Refuse(status, faults...)
}

// FaultsOf returns everything that is wrong with a notification.
func FaultsOf(err error) []notify.Fault {
	if faults := notify.FaultsOf(err); len(faults) > 0 {
		return faults
	}
	return []notify.Fault{{Reason: engine.ReasonOf(err), Field: engine.FieldOf(err), Text: err.Error()}}
}
