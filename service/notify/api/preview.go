package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/source/httpapi"
)

// previewPath is where a notification is decided without effect.
const previewPath = decisionsPath + "preview"

// Preview is the answer for a notification that is decided without effect.
type Preview struct {
	Explained
	// Repeat: the event was decided before, and this is its newest decision. Otherwise
	// decision_id is all zeros: nothing is stored.
	Repeat bool `json:"repeat"`
}

var errNoSet = errors.New("no set of rules is in force in this process yet")

// preview decides one notification by the set in force and the user's state of this
// moment, and stores and publishes nothing: no counter, no mark, no record.
func (a *API) preview(r *httpapi.Request) *httpapi.Answer {
	q, refused := a.read(r)
	switch {
	case refused != nil:
		return refused
	case q.faulty > 0:
		return q.refusal(q.status())
	case len(q.entries) != 1:
		return refuse(http.StatusBadRequest, "", "bad_parameter", "one notification is previewed at a time: send one object")
	}
	event := q.entries[0].event
	standing, err := a.standing(r.Context(), event)
	if err != nil {
		return unread(err, "the user's state could not be read; ask again")
	}
	q.entries[0].person = event.Person
	if known := standing.Known[0]; known.Outcome != 0 {
		return a.previewKnown(r, q, known)
	}
	set := a.ports.Sets.Current()
	if set == nil {
		return unread(errNoSet, "no set of rules could be read yet; ask again")
	}
	event.Print = set.Policy.Print(event)
	record := notify.Decide(set, &standing.Preferences, standing.State, event, notify.Turn{}, notify.Score{}, engine.Now())
	return ok(Preview{Explained: Explain(&notify.Decided{Record: record, Event: event})})
}

// previewKnown answers with the decision that was made of the event before: a worker would
// decide it no second time.
func (a *API) previewKnown(r *httpapi.Request, q *request, known notify.Known) *httpapi.Answer {
	stored, err := a.ports.Ledger.Decision(r.Context(), known.DecisionID)
	if err != nil {
		return unread(err, "the decision could not be read; ask again")
	}
	e := &q.entries[0]
	switch {
	case !known.Of(e.owner()):
		q.compare(e, known.User, nil)
	case stored == nil:
		return refuse(http.StatusNotFound, "event_id", "not_found", "it was decided, and its record is deleted by now")
	case stored.Event != nil && !stored.Record.BeforeItCame():
		q.compare(e, known.User, stored.Event.Body)
	}
	if e.refused() {
		return q.refusal(http.StatusConflict)
	}
	return ok(Preview{Explained: Explain(stored), Repeat: true})
}

// standing reads what is stored of an event's user, and tells an event of an alias whose it is.
func (a *API) standing(ctx context.Context, event *notify.Notification) (*notify.Standing, error) {
	person, err := ledger.Person(ctx, a.ports.Ledger, event.UserID)
	if err != nil {
		return nil, err
	}
	if person != event.UserID {
		event.Person = person
	}
	standings, err := a.ports.Ledger.Load(ctx, []notify.Ask{{User: person, Events: []uuid.UUID{event.ID}}})
	if err != nil {
		return nil, err
	}
	return &standings[0], nil
}
