package ingest

import (
	"net/http"

	"keyfold/engine/profile"
	"keyfold/source/httpapi"
)

// What became of an event in a partial request.
const (
	statusAccepted  = "accepted"
	statusDuplicate = "duplicate"
	statusRefused   = "refused"
)

// result is what became of one event.
type result struct {
	Index     int    `json:"index"` // in the request, from 0
	Status    string `json:"status"`
	MessageID string `json:"message_id,omitempty"` // of a stored event
	Field     string `json:"field,omitempty"`      // of a refused one, like those below
	Reason    string `json:"reason,omitempty"`
	Error     string `json:"error,omitempty"` // left out beyond the first [httpapi.MaxListed]
}

// partialResponse is the answer to ?partial=true.
type partialResponse struct {
	Accepted  int      `json:"accepted"`
	Duplicate int      `json:"duplicate"`
	Refused   int      `json:"refused"`
	Results   []result `json:"results"` // one for each event, in order
}

// partialAnswer says of each event what became of it: 202 where any is stored,
// 400 where none is. fresh is aligned with the entries.
func (a *API) partialAnswer(o *outcome, fresh []bool) *httpapi.Answer {
	answer := partialResponse{Refused: len(o.results) - len(o.entries), Results: o.results}
	if o.results == nil {
		answer.Results = []result{}
	}
	for i, isNew := range fresh {
		status := statusDuplicate
		if isNew {
			answer.Accepted++
			status = statusAccepted
		}
		o.results[o.at[i]].Status = status
	}
	answer.Duplicate = len(o.entries) - answer.Accepted
	a.stats.Refused.Add(int64(answer.Refused))
	status := http.StatusAccepted
	if len(o.entries) == 0 && len(o.results) > 0 {
		status = http.StatusBadRequest
	}
	return &httpapi.Answer{Status: status, Body: answer, Beside: len(o.entries) == 0}
}

// leaveOut removes the entries that the store rejects, by their indexes, and says so
// in their results.
func (o *outcome) leaveOut(rejected map[int]error) {
	var (
		kept []profile.Entry
		at   []int
	)
	for i := range o.entries {
		fault, out := rejected[i]
		if !out {
			kept, at = append(kept, o.entries[i]), append(at, o.at[i])
			continue
		}
		reason, text := rejection(fault)
		o.results[o.at[i]] = result{Index: o.at[i], Status: statusRefused, Reason: reason, Error: text}
	}
	o.entries, o.at = kept, at
}
