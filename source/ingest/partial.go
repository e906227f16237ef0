package ingest

import (
	"net/http"
	"slices"

	"keyfold/engine"
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
	Error     string `json:"error,omitempty"` // left out beyond the first maxListed
}

// partly is the answer to ?partial=true.
type partly struct {
	Accepted  int      `json:"accepted"`
	Duplicate int      `json:"duplicate"`
	Refused   int      `json:"refused"`
	Results   []result `json:"results"` // one for each event, in order
}

// addSome stores the good events of a request and says of each what became of
// it: 202 where any is stored, 400 where none is.
func (h *Handler) addSome(r *http.Request, b batch) *reply {
	entries, at, results, refused := b.some()
	if refused != nil {
		return refused
	}
	fresh, refused := h.add(r, entries)
	for refused != nil {
		rejected := rejectedBy(refused.cause)
		if len(rejected) == 0 {
			return refused
		}
		entries, at = without(rejected, entries, at, results)
		fresh, refused = h.add(r, entries)
	}
	answer := partly{Refused: len(results) - len(entries), Results: results}
	if results == nil {
		answer.Results = []result{}
	}
	for i, isNew := range fresh {
		status := statusDuplicate
		if isNew {
			answer.Accepted++
			status = statusAccepted
		}
		results[at[i]].Status = status
	}
	answer.Duplicate = len(entries) - answer.Accepted
	h.stats.Refused.Add(int64(answer.Refused))
	status := http.StatusAccepted
	if len(entries) == 0 && len(results) > 0 {
		status = http.StatusBadRequest
	}
	return &reply{status: status, body: answer}
}

// without leaves out the entries that the store rejects, and says so in their
// results.
func without(rejected []int, entries []engine.Entry, at []int, results []result) ([]engine.Entry, []int) {
	var (
		kept   []engine.Entry
		places []int
	)
	for i := range entries {
		if _, out := slices.BinarySearch(rejected, i); !out {
			kept, places = append(kept, entries[i]), append(places, at[i])
			continue
		}
		results[at[i]] = result{Index: at[i], Status: statusRefused, Reason: reasonStoreRefused, Error: textStoreRefused}
	}
	return kept, places
}
