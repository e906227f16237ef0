package ingest

import (
	"fmt"
	"net/http"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/httpapi"
)

// read makes an entry of one event's text.
func read(text []byte, now time.Time) (profile.Entry, error) {
	event, body, err := profile.CompleteEvent(text, now)
	if err != nil {
		return profile.Entry{}, err
	}
	if len(body) > profile.MaxBodyBytes {
		return profile.Entry{}, engine.PermanentError(engine.ReasonBodyTooLarge,
			fmt.Errorf("body: found %d bytes once message_id and version are filled in, expected at most %d", len(body), profile.MaxBodyBytes))
	}
	return profile.Entry{Event: event, Body: body}, nil
}

// faults returns all that is wrong with an event whose first fault is err.
func faults(text []byte, err error, now time.Time) []error {
	if all := profile.EventFaults(text, now); len(all) > 0 && all[0].Error() == err.Error() {
		return all
	}
	return []error{err}
}

// outcome holds what came of the events of a request.
type outcome struct {
	entries  []profile.Entry
	at       []int           // aligned with entries: their indexes in the request
	results  []result        // one for each event; those of the entries have no status yet
	faults   []httpapi.Fault // all of the first [httpapi.MaxListed] events at fault
	refused  int             // events at fault
	tooLarge bool            // an event is
}

// readAll reads every event. Only good ones become entries.
func readAll(r *httpapi.Request) (o outcome, refused *httpapi.Answer) {
	now := time.Now()
	trace := engine.TraceOf(r.Header.Get)
	refused = r.Each(func(index int, text []byte, err error) {
		var entry profile.Entry
		if err == nil {
			entry, err = read(text, now)
		}
		if err != nil {
			o.refuse(index, err, text, now)
			return
		}
		entry.Trace = trace
		o.entries, o.at = append(o.entries, entry), append(o.at, index)
		o.results = append(o.results, result{Index: index, MessageID: entry.Event.MessageID})
	})
	return o, refused
}

// refuse notes an event at fault. Only the first ones are described.
func (o *outcome) refuse(index int, err error, text []byte, now time.Time) {
	o.tooLarge = o.tooLarge || engine.ReasonOf(err) == engine.ReasonBodyTooLarge
	r := result{Index: index, Status: statusRefused, Reason: engine.ReasonOf(err)}
	if o.refused++; o.refused <= httpapi.MaxListed {
		r.Field, r.Error = engine.FieldOf(err), err.Error()
		for _, one := range faults(text, err, now) {
			o.faults = append(o.faults, httpapi.Fault{Index: &index, Field: engine.FieldOf(one), Reason: engine.ReasonOf(one), Error: one.Error()})
		}
	}
	o.results = append(o.results, r)
}

// refusal answers with every fault there is.
func (o *outcome) refusal() *httpapi.Answer {
	status := http.StatusBadRequest
	if o.tooLarge {
		status = http.StatusRequestEntityTooLarge
	}
	return &httpapi.Answer{Status: status, Body: httpapi.Refusal{Errors: o.faults, More: max(0, o.refused-httpapi.MaxListed)}}
}
