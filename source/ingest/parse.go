package ingest

import (
	"fmt"
	"net/http"
	"time"

	"keyfold/engine"
)

// parse reads all events of a body, or returns every fault it has.
func parse(body []byte, lines bool, now time.Time) ([]Entry, *fault) {
	if len(trim(body)) == 0 {
		return nil, faultOf(http.StatusBadRequest, "empty_body", "the body is empty: send an event, an array of events or NDJSON")
	}
	split := splitJSON
	if lines {
		split = splitLines
	}
	var entries []Entry
	faults := &fault{status: http.StatusBadRequest}
	index := 0
	for text, err := range split(body) {
		if err != nil {
			faults.add(index, engine.ReasonMalformedJSON, err.Error())
			break
		}
		if index == MaxEvents {
			return nil, faultOf(http.StatusRequestEntityTooLarge, "too_many_events",
				fmt.Sprintf("the request has more than %d events: send several smaller ones", MaxEvents))
		}
		event, err := engine.ParseEvent(text, now)
		if err != nil {
			faults.refuse(index, err)
		} else if len(faults.Errors) == 0 {
			entries = append(entries, Entry{Event: event, Body: text})
		}
		index++
	}
	if len(faults.Errors) > 0 {
		return nil, faults
	}
	return entries, nil
}

// refuse lists an event's error. A single event over the limit makes the whole
// answer a 413.
func (f *fault) refuse(index int, err error) {
	reason := engine.ReasonOf(err)
	if reason == engine.ReasonBodyTooLarge {
		f.status = http.StatusRequestEntityTooLarge
	}
	f.add(index, reason, err.Error())
}
