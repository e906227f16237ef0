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

// read makes an entry of one event's text.
func (b batch) read(text []byte) (engine.Entry, error) {
	event, err := engine.ParseEvent(text, b.now)
	if err != nil {
		return engine.Entry{}, err
	}
	body := complete(text, event.MessageID)
	if len(body) > engine.MaxBodyBytes {
		return engine.Entry{}, engine.PermanentError(engine.ReasonBodyTooLarge,
			fmt.Errorf("body: found %d bytes once message_id and version are filled in, expected at most %d", len(body), engine.MaxBodyBytes))
	}
	return engine.Entry{Event: event, Body: body}, nil
}

// all reads every event, or refuses the request with every fault it has.
func (b batch) all() ([]engine.Entry, *reply) {
	var (
		entries []engine.Entry
		faults  refusal
	)
	status := http.StatusBadRequest
	refused := b.each(func(index int, text []byte, err error) {
		var entry engine.Entry
		if err == nil {
			entry, err = b.read(text)
		}
		switch {
		case err == nil && len(faults.Errors) == 0:
			entries = append(entries, entry)
		case err != nil:
			faults.add(index, text, err)
			if engine.ReasonOf(err) == engine.ReasonBodyTooLarge {
				status = http.StatusRequestEntityTooLarge
			}
		}
	})
	if refused != nil {
		return nil, refused
	}
	if len(faults.Errors) > 0 {
		return nil, &reply{status: status, body: faults}
	}
	return entries, nil
}

// some reads every event that is good. results has one for each event, those of
// the entries still open; at is aligned with entries and gives their places.
//
// An array that is no JSON as a whole is refused as a whole: where one element
// ends and the next begins is then anybody's guess.
func (b batch) some() (entries []engine.Entry, at []int, results []result, refused *reply) {
	described := 0
	refused = b.each(func(index int, text []byte, err error) {
		var entry engine.Entry
		if err == nil {
			entry, err = b.read(text)
		}
		r := result{Index: index}
		if err == nil {
			entries, at = append(entries, entry), append(at, index)
			r.MessageID = entry.Event.MessageID
		} else {
			r.Status, r.Reason = statusRefused, engine.ReasonOf(err)
			if described++; described <= maxListed {
				r.Field, r.Error = fieldAtFault(text, r.Reason), err.Error()
			}
		}
		results = append(results, r)
	})
	if refused == nil && described > 0 && !b.lines && !json.Valid(b.body) {
		_, refused = b.all()
	}
	return entries, at, results, refused
}
