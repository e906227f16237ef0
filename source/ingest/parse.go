package ingest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"keyfold/engine"
)

// batch is what came in one request.
type batch struct {
	body  []byte
	lines bool // NDJSON
	now   time.Time
}

// each calls do with the text of every event, in order. A fault between events
// is the last text's error.
func (b batch) each(do func(index int, text []byte, err error)) *reply {
	if len(trim(b.body)) == 0 {
		return refuse(http.StatusBadRequest, "empty_body", "the body is empty: send an event, an array of events or NDJSON")
	}
	split := splitJSON
	if b.lines {
		split = splitLines
	}
	index := 0
	for text, err := range split(b.body) {
		if err != nil {
			do(index, text, engine.PermanentError(engine.ReasonMalformedJSON, err))
			break
		}
		if index == MaxEvents {
			return refuse(http.StatusRequestEntityTooLarge, "too_many_events",
				fmt.Sprintf("the request has more than %d events: send several smaller ones", MaxEvents))
		}
		do(index, text, nil)
		index++
	}
	return nil
}

// separable reports whether events are told apart for certain, also where some are at
// fault.
func (b batch) separable() bool { return b.lines || json.Valid(b.body) }

// read makes an entry of one event's text.
func (b batch) read(text []byte) (engine.Entry, error) {
	event, body, err := engine.CompleteEvent(text, b.now)
	if err != nil {
		return engine.Entry{}, err
	}
	if len(body) > engine.MaxBodyBytes {
		return engine.Entry{}, engine.PermanentError(engine.ReasonBodyTooLarge,
			fmt.Errorf("body: found %d bytes once message_id and version are filled in, expected at most %d", len(body), engine.MaxBodyBytes))
	}
	return engine.Entry{Event: event, Body: body}, nil
}

// faults returns all that is wrong with an event whose first fault is err.
func (b batch) faults(text []byte, err error) []error {
	if all := engine.EventFaults(text, b.now); len(all) > 0 && all[0].Error() == err.Error() {
		return all
	}
	return []error{err}
}

// outcome holds what came of the events of a request.
type outcome struct {
	entries  []engine.Entry
	at       []int    // aligned with entries: their indexes in the request
	results  []result // one for each event; those of the entries have no status yet
	faults   refusal
	tooLarge bool // an event is
}

// readAll reads every event. Only good ones become entries.
func (b batch) readAll() (o outcome, refused *reply) {
	refused = b.each(func(index int, text []byte, err error) {
		var entry engine.Entry
		if err == nil {
			entry, err = b.read(text)
		}
		if err == nil {
			o.entries, o.at = append(o.entries, entry), append(o.at, index)
			o.results = append(o.results, result{Index: index, MessageID: entry.Event.MessageID})
			return
		}
		o.tooLarge = o.tooLarge || engine.ReasonOf(err) == engine.ReasonBodyTooLarge
		r := result{Index: index, Status: statusRefused, Reason: engine.ReasonOf(err)}
		if o.faults.addEvent(index, b.faults(text, err)) {
			r.Field, r.Error = engine.FieldOf(err), err.Error()
		}
		o.results = append(o.results, r)
	})
	return o, refused
}

// refusal answers with every fault there is.
func (o *outcome) refusal() *reply {
	status := http.StatusBadRequest
	if o.tooLarge {
		status = http.StatusRequestEntityTooLarge
	}
	return &reply{status: status, body: o.faults}
}
