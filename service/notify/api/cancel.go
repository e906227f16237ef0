package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/sink/ledger"
	"keyfold/source/httpapi"
)

// Canceller ends what waits. Verdicts are aligned with what is asked.
type Canceller interface {
	Cancel(ctx context.Context, all []notify.Cancellation) []processor.Verdict
}

const (
	cancellationsPath = "/v1/cancellations"
	// cancelTimeout is how long a request waits for the ledger to write its cancellations.
	cancelTimeout = 20 * time.Second
)

// Cancelled is what became of one cancellation.
type Cancelled struct {
	Index  int    `json:"index"`  // in the request, from 0
	Status string `json:"status"` // cancelled, sent, ended, not_waiting, unknown or refused
	// EventIDs are those that wait no longer, follow-ups included.
	EventIDs []uuid.UUID     `json:"event_ids,omitempty"`
	Errors   []httpapi.Fault `json:"errors,omitempty"`
}

// cancellations ends what waits. Each is by itself: 200 where any was understood, 400 where
// all were refused, 503 where the ledger did not write one.
func (a *API) cancellations(r *httpapi.Request) *httpapi.Answer {
	var (
		all     []notify.Cancellation
		at      []int
		results = []Cancelled{}
		refused int
	)
	if answer := r.Each(func(index int, text []byte, err error) {
		var c notify.Cancellation
		if err == nil {
			c, err = notify.ParseCancellation(text)
		}
		one := Cancelled{Index: index, Status: "refused"}
		if err != nil {
			refused++
			for _, f := range FaultsOf(err) {
				one.Errors = append(one.Errors, httpapi.Fault{Field: f.Field, Reason: f.Reason, Error: f.Text})
			}
		} else {
			c.May = func(n *notify.Notification) bool { return r.Forbidden(n.Source, n.Type.String()) == nil }
			all, at = append(all, c), append(at, index)
		}
		results = append(results, one)
	}); answer != nil {
		return answer
	}
	if a.ports.Sets.Current() == nil {
		return unread(errors.New("no set of rules is in force here yet"), "nothing can be cancelled yet; ask again")
	}
	ctx, cancel := context.WithTimeout(r.Context(), cancelTimeout)
	defer cancel()
	done, err := a.Cancel(ctx, all, r.Limited())
	if err != nil {
		return unread(err, "not all could be cancelled; send all of them again: what is cancelled stays so")
	}
	for i := range done {
		done[i].Index = at[i]
		results[at[i]] = done[i]
	}
	answer := ok(map[string]any{"results": results})
	if refused > 0 && refused == len(results) {
		answer.Status = http.StatusBadRequest
	}
	return answer
}

// Cancel ends what waits, and says of each what became of it. An event whose user is not
// named and of which nothing is stored is unknown. One that is not known is ended before it
// comes, unless limited is set: its source is not known then.
func (a *API) Cancel(ctx context.Context, all []notify.Cancellation, limited bool) ([]Cancelled, error) {
	results := make([]Cancelled, len(all))
	var ids []uuid.UUID
	for i := range all {
		if all[i].Event != uuid.Nil {
			ids = append(ids, all[i].Event)
		}
	}
	keys, err := a.keysByID(ctx, ids)
	if err == nil {
		err = a.ofPersons(ctx, all)
	}
	if err == nil && limited {
		err = a.withoutOthers(ctx, all, keys)
	}
	if err != nil {
		return nil, err
	}
	var known []notify.Cancellation
	var at []int
	for i := range all {
		c := &all[i]
		key := keys[c.Event]
		switch {
		case key.Outcome != 0 && c.User == "":
			c.User = key.User
		case key.Outcome != 0 && !key.Of(c.User), c.User == "", c.Event != uuid.Nil && key.Outcome == 0 && limited:
			results[i].Status = "unknown"
			continue
		}
		known, at = append(known, *c), append(at, i)
	}
	for i, v := range a.ports.Canceller.Cancel(ctx, known) {
		if v.Err != nil {
			return nil, v.Err
		}
		results[at[i]] = cancelledOf(&known[i], &v)
	}
	return results, nil
}

// ofPersons has cancellations for aliases be for the users that these stand for.
func (a *API) ofPersons(ctx context.Context, all []notify.Cancellation) error {
	var ids []string
	for i := range all {
		if all[i].User != "" {
			ids = append(ids, all[i].User)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	persons, err := ledger.Persons(ctx, a.ports.Ledger, ids...)
	for i := range all {
		if person, ok := persons[all[i].User]; ok {
			all[i].User = person
		}
	}
	return err
}

// withoutOthers deletes the keys of events that a limited token may not cancel: what became of
// them is not its business.
func (a *API) withoutOthers(ctx context.Context, all []notify.Cancellation, keys map[uuid.UUID]notify.Known) error {
	may := make(map[uuid.UUID]bool, len(keys))
	var decisions []uuid.UUID
	for _, key := range keys {
		decisions = append(decisions, key.DecisionID)
	}
	stored, err := a.ports.Ledger.Decisions(ctx, decisions)
	if err != nil {
		return err
	}
	for i := range stored {
		for j := range all {
			if e := stored[i].Event; e != nil && all[j].Event == e.ID && (all[j].May == nil || all[j].May(e)) {
				may[e.ID] = true
			}
		}
	}
	for event := range keys {
		if !may[event] {
			delete(keys, event)
		}
	}
	return nil
}

func (a *API) keysByID(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]notify.Known, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := a.keys(ctx, ids)
	all := make(map[uuid.UUID]notify.Known, len(found))
	for _, key := range found {
		if key.Outcome != 0 {
			all[key.EventID] = key
		}
	}
	return all, err
}

// cancelledOf returns the answer for a verdict.
func cancelledOf(c *notify.Cancellation, v *processor.Verdict) (one Cancelled) {
	for i := range v.Records {
		one.EventIDs = append(one.EventIDs, v.Records[i].EventID)
	}
	switch {
	case len(one.EventIDs) > 0:
		one.Status = "cancelled"
	case c.Event == uuid.Nil:
		one.Status = "not_waiting"
	case v.Key.Outcome == notify.Now:
		one.Status = "sent"
	case v.Key.Outcome == notify.Later: // the token may not cancel it
		one.Status = "unknown"
	default:
		one.Status = "ended"
	}
	return one
}
