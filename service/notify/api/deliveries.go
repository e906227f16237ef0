package api

import (
	"context"
	"net/http"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/source/httpapi"
)

// applyTimeout is how long a request waits for the ledger to write its reports.
const applyTimeout = 20 * time.Second

// applied is what became of one delivery report.
type applied struct {
	Index  int             `json:"index"`  // in the request, from 0
	Status string          `json:"status"` // applied or refused
	Errors []httpapi.Fault `json:"errors,omitempty"`
}

// deliveries applies reports: each by itself, because they are idempotent and may come
// in any order. 200 where any was applied, 400 where all were refused, 503 where the
// ledger did not write one: then the request may be sent again as it is.
func (a *API) deliveries(r *httpapi.Request) *httpapi.Answer {
	var (
		reports []notify.Report
		at      []int
		results []applied
	)
	now := engine.Now()
	if refused := r.Each(func(index int, text []byte, err error) {
		var report notify.Report
		if err == nil {
			report, err = notify.ParseReport(text, now)
		}
		results = append(results, appliedOf(index, err))
		if err == nil {
			reports, at = append(reports, report), append(at, index)
		}
	}); refused != nil {
		return refused
	}
	if len(reports) > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), applyTimeout)
		defer cancel()
		for i, err := range a.ports.Reports.Apply(ctx, reports) {
			if err != nil && engine.KindOf(err) != engine.Permanent {
				return unread(err, "not all reports could be stored; send all of them again: a report that comes twice changes nothing")
			}
			results[at[i]] = appliedOf(at[i], err)
		}
	}
	refused := 0
	for i := range results {
		if len(results[i].Errors) == 0 {
			continue
		}
		if refused++; refused > httpapi.MaxListed {
			results[i].Errors = nil
		}
	}
	answer := ok(map[string]any{"applied": len(results) - refused, "refused": refused, "results": results})
	if refused > 0 && refused == len(results) {
		answer.Status = http.StatusBadRequest
	}
	return answer
}

func appliedOf(index int, err error) applied {
	if err == nil {
		return applied{Index: index, Status: "applied"}
	}
	one := applied{Index: index, Status: "refused"}
	for _, f := range FaultsOf(err) {
		one.Errors = append(one.Errors, httpapi.Fault{Field: f.Field, Reason: f.Reason, Error: f.Text})
	}
	return one
}
