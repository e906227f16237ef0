package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
	"keyfold/source/httpapi"
)

// publishTimeout is how long a request waits for the broker's confirms.
const publishTimeout = 20 * time.Second

// accepted is the answer to a request that the broker keeps as a whole.
type accepted struct {
	Accepted  int         `json:"accepted"`
	Duplicate int         `json:"duplicate"`
	EventIDs  []uuid.UUID `json:"event_ids"` // in the order of the request
}

// publish hands the notifications of a request to the broker. With 409 nothing was
// published: an event_id is another event's.
func (a *API) publish(r *httpapi.Request, q *request, partial bool) *httpapi.Answer {
	faulty := q.faulty
	a.lookUp(r.Context(), q)
	a.counts.Refused.Add(int64(q.faulty))
	if q.faulty > faulty && !partial {
		return q.refusal(http.StatusConflict)
	}
	events := q.events()
	if refused := a.send(r.Context(), q, events); refused != nil {
		return refused
	}
	answer := a.published(r, q, partial)
	answer.Beside = len(events) == 0
	return answer
}

// published answers for a request whose notifications the broker keeps.
func (a *API) published(r *httpapi.Request, q *request, partial bool) *httpapi.Answer {
	if partial {
		return q.partialAnswer()
	}
	wait := preferredWait(r.Header)
	if wait == 0 || len(q.entries) > maxWaited {
		return q.accepted()
	}
	answer, waited := a.wait(r.Context(), q, wait)
	if answer == nil {
		answer = q.accepted()
	}
	if waited {
		answer.Header = http.Header{"Preference-Applied": {"wait=" + strconv.Itoa(int(wait/time.Second))}}
	}
	return answer
}

// send publishes what is neither at fault nor a repeat, and counts.
func (a *API) send(ctx context.Context, q *request, events []*notify.Notification) *httpapi.Answer {
	repeats := len(q.entries) - q.faulty - len(events)
	if len(events) > 0 {
		ctx, cancel := context.WithTimeout(ctx, publishTimeout)
		defer cancel()
		confirmed := 0
		err := failpoint.Hit(failpoint.Posted)
		if err == nil {
			var kept []*notify.Notification
			for i, one := range a.ports.Publisher.Publish(ctx, events) {
				if one == nil {
					kept = append(kept, events[i])
				}
				err = worse(err, one)
			}
			confirmed = len(kept)
			a.remember(kept)
		}
		if err == nil {
			err = failpoint.Hit(failpoint.Confirmed)
		}
		if err != nil {
			a.counts.Failed.Add(int64(len(events) - confirmed))
			return unpublished(err, confirmed)
		}
	}
	a.counts.Accepted.Add(int64(len(events)))
	a.counts.Duplicate.Add(int64(repeats))
	return nil
}

// worse returns the error that says more about what is to be done.
func worse(a, b error) error {
	if a == nil || b != nil && isSetup(b) && !isSetup(a) {
		return b
	}
	return a
}

// isSetup reports whether an error is cured by setting the broker up, not by time.
func isSetup(err error) bool { return engine.KindOf(err) == engine.Configuration }

// unpublished is the answer where not all of a request are confirmed.
func unpublished(err error, confirmed int) *httpapi.Answer {
	switch {
	case isSetup(err):
		return httpapi.Unavailable("broker_not_set_up", "the broker has no place for notifications: the log names the cure; "+repeatText(confirmed), err)
	case confirmed > 0 || errors.Is(err, engine.ErrUnknown):
		return httpapi.Unavailable("not_confirmed", "the broker has not confirmed all notifications; "+repeatText(confirmed), err)
	default:
		return httpapi.Unavailable("broker_away", "the broker does not take notifications; "+repeatText(confirmed), err)
	}
}

// repeatText says what the sender is to do, and that this is safe.
func repeatText(confirmed int) string {
	if confirmed > 0 {
		return "some of them are kept: send the whole request again; a notification is decided once under its event_id, however often it comes"
	}
	return "send the request again; a notification is decided once under its event_id, however often it comes"
}

// accepted answers for a request that is published as a whole.
func (q *request) accepted() *httpapi.Answer {
	body := accepted{EventIDs: make([]uuid.UUID, len(q.entries))}
	for i := range q.entries {
		e := &q.entries[i]
		body.EventIDs[i] = e.event.ID
		if e.repeat {
			body.Duplicate++
		} else {
			body.Accepted++
		}
	}
	return &httpapi.Answer{Status: http.StatusAccepted, Body: body}
}
