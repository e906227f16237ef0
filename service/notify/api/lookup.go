package api

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

const (
	// lookupTimeout bounds how long a request waits for the ledger before it publishes.
	lookupTimeout = time.Second
	// lookupRest is how long the ledger is not asked after it failed: requests do not
	// wait for it one by one.
	lookupRest = 5 * time.Second
	// comparedAtOnce is how many stored events are read at a time: their bodies are in
	// memory meanwhile.
	comparedAtOnce = 500
)

// ReasonAnotherEvent is the reason of an event_id that an event of other content has.
const ReasonAnotherEvent = "event_id_of_another_event"

// lookUp finds the events that were decided before or stand twice in the request, and
// those under the event_id of another one. Without the ledger all are published: the
// workers know a repeat too.
func (a *API) lookUp(ctx context.Context, q *request) {
	first := make(map[uuid.UUID]*entry, len(q.entries))
	ids := make([]uuid.UUID, 0, len(q.entries))
	for i := range q.entries {
		e := &q.entries[i]
		if e.refused() {
			continue
		}
		before := first[e.event.ID]
		if before == nil {
			first[e.event.ID] = e
			ids = append(ids, e.event.ID)
			continue
		}
		e.repeat = true
		q.compare(e, before.event.UserID, before.event.Body)
	}
	ids = a.lookUpRepeats(ctx, first, ids)
	bounded, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if err := a.lookUpKeys(bounded, q, first, ids); err != nil && ctx.Err() == nil { // else the sender has left
		a.rest.Store(time.Now().Add(lookupRest).UnixNano())
		if a.outage.Begins(err) {
			a.ports.Log.Warn("notifications are published without a look at the ledger", slog.Any("error", err),
				slog.String("hint", "the workers know repeats; an event_id that is used twice is not refused until the ledger answers"))
		}
	}
	for i := range q.entries { // a repeat of a refused one
		e := &q.entries[i]
		if before := first[idOf(e)]; before != nil && before != e && before.refused() && !e.refused() {
			e.faults = before.faults
			q.faulty++
		}
	}
}

// idOf returns an entry's event_id, the zero one where it does not parse.
func idOf(e *entry) uuid.UUID {
	if e.event == nil {
		return uuid.Nil
	}
	return e.event.ID
}

// lookUpKeys asks the ledger for the keys of events. It returns an error of the ledger,
// none while the ledger is not asked.
func (a *API) lookUpKeys(ctx context.Context, q *request, first map[uuid.UUID]*entry, ids []uuid.UUID) error {
	if len(ids) == 0 || time.Now().UnixNano() < a.rest.Load() {
		return nil
	}
	keys, err := a.keys(ctx, ids)
	if err != nil {
		return err
	}
	if away, was := a.outage.Ends(); was {
		a.ports.Log.Info("the ledger is asked for repeats again", slog.Duration("away_for", away))
	}
	var compared, others []notify.Known
	for _, key := range keys {
		if key.Outcome == 0 {
			continue
		}
		e := first[key.EventID]
		e.repeat, e.known = true, key
		if compared = append(compared, key); !key.Of(e.event.UserID) {
			others = append(others, key)
		}
	}
	if others, err = a.own(ctx, others, func(k *notify.Known) *entry { return first[k.EventID] }); err != nil {
		return err
	}
	for _, key := range others {
		q.compare(first[key.EventID], key.User, nil)
	}
	compared = slices.DeleteFunc(compared, func(k notify.Known) bool { return first[k.EventID].refused() })
	a.compareStored(ctx, q, first, compared)
	return nil
}

// compareStored compares repeats with what is stored under their keys. Those whose
// records cannot be read in time are not compared: a request of many repeats says nothing
// about the ledger.
func (a *API) compareStored(ctx context.Context, q *request, first map[uuid.UUID]*entry, keys []notify.Known) {
	for part := range slices.Chunk(keys, comparedAtOnce) {
		ids := make([]uuid.UUID, len(part))
		for i := range part {
			ids[i] = part[i].DecisionID
		}
		stored, err := a.ports.Ledger.Decisions(ctx, ids)
		if err != nil {
			return
		}
		for i := range stored {
			if d := &stored[i]; d.Event != nil && !d.Record.BeforeItCame() { // its user was not erased
				q.compare(first[d.Record.EventID], d.Record.UserID, d.Event.Body)
			}
		}
	}
}

// keys reads the keys of events; those that are absent are zero.
func (a *API) keys(ctx context.Context, ids []uuid.UUID) ([]notify.Known, error) {
	standings, err := a.ports.Ledger.Load(ctx, []notify.Ask{{Events: ids}})
	if err != nil {
		return nil, err
	}
	return standings[0].Known, nil
}

// compare refuses an entry whose event_id an event of another user, or one that says
// something else, has.
func (q *request) compare(e *entry, user string, body []byte) {
	fault := notify.Fault{Field: "event_id", Reason: notify.ReasonAnotherUser, Text: fmt.Sprintf(
		"event %s: %s: give each event an event_id of its own", e.event.ID, "event_id belongs to another user's event")}
	if user == e.owner() {
		mine, err := notify.ContentID(e.event.Body)
		stored, storedErr := notify.ContentID(body)
		if err != nil || storedErr != nil || mine == stored {
			return
		}
		fault.Reason = ReasonAnotherEvent
		fault.Text = fmt.Sprintf("event %s: event_id belongs to an event of other content: give each event an event_id of its own", e.event.ID)
	}
	e.faults = append(e.faults, fault)
	q.faulty++
}
