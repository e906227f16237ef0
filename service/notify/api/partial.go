package api

import (
	"net/http"

	"keyfold/source/httpapi"
)

// result is what became of one notification of a partial request.
type result struct {
	Index   int             `json:"index"`              // in the request, from 0
	Status  string          `json:"status"`             // accepted, duplicate or refused
	EventID string          `json:"event_id,omitempty"` // of one that is not refused
	Errors  []httpapi.Fault `json:"errors,omitempty"`   // of one that is; left out beyond the first [httpapi.MaxListed]
}

// partialBody is the answer to ?partial=true.
type partialBody struct {
	Accepted  int      `json:"accepted"`
	Duplicate int      `json:"duplicate"`
	Refused   int      `json:"refused"`
	Results   []result `json:"results"` // one for each notification, in order
}

// partialAnswer says of each notification what became of it: 202 where any was not
// refused, 400 where all were.
func (q *request) partialAnswer() *httpapi.Answer {
	body := partialBody{Results: make([]result, len(q.entries))}
	for i := range q.entries {
		e := &q.entries[i]
		one := result{Index: i}
		switch {
		case e.refused():
			one.Status = "refused"
			if body.Refused++; body.Refused <= httpapi.MaxListed {
				for _, f := range e.faults {
					one.Errors = append(one.Errors, httpapi.Fault{Field: f.Field, Reason: f.Reason, Error: f.Text})
				}
			}
		case e.repeat:
			one.Status, one.EventID = "duplicate", e.event.ID.String()
			body.Duplicate++
		default:
			one.Status, one.EventID = "accepted", e.event.ID.String()
			body.Accepted++
		}
		body.Results[i] = one
	}
	answer := &httpapi.Answer{Status: http.StatusAccepted, Body: body}
	if body.Refused > 0 && body.Refused == len(q.entries) {
		answer.Status = http.StatusBadRequest
	}
	return answer
}
