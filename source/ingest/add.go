package ingest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/httpapi"
)

// addAll stores the events of a request: all or none of them or, where partial, those
// that are good.
//
// An array that is no JSON as a whole is refused as a whole also where partial:
// one cannot tell where one element ends and the next begins.
func (a *API) addAll(r *httpapi.Request, o *outcome, partial bool) *httpapi.Answer {
	if o.refused > 0 && (!partial || !r.Separable()) {
		a.stats.Refused.Add(int64(o.refused))
		return o.refusal()
	}
	fresh, refused := a.add(r.Context(), o.entries)
	for refused != nil {
		rejected := rejectedBy(refused.Cause)
		if !partial || len(rejected) == 0 {
			return refused
		}
		o.leaveOut(rejected)
		fresh, refused = a.add(r.Context(), o.entries)
	}
	if partial {
		return a.partialAnswer(o, fresh)
	}
	return acceptedAnswer(o.entries, fresh)
}

// accepted is the answer to a request that is stored as a whole.
type accepted struct {
	Accepted   int      `json:"accepted"`
	Duplicate  int      `json:"duplicate"`
	MessageIDs []string `json:"message_ids"` // in the order of the request
}

func acceptedAnswer(entries []profile.Entry, fresh []bool) *httpapi.Answer {
	answer := accepted{MessageIDs: make([]string, len(entries))}
	for i := range entries {
		answer.MessageIDs[i] = entries[i].Event.MessageID
		if fresh[i] {
			answer.Accepted++
		}
	}
	answer.Duplicate = len(entries) - answer.Accepted
	return &httpapi.Answer{Status: http.StatusAccepted, Body: answer, Beside: len(entries) == 0}
}

// add stores entries and counts them. fresh is aligned with entries.
func (a *API) add(sender context.Context, entries []profile.Entry) (fresh []bool, refused *httpapi.Answer) {
	if len(entries) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(sender, StoreTimeout)
	defer cancel()
	fresh, err := a.store.Add(ctx, entries)
	if err != nil {
		return nil, storeFault(sender, err)
	}
	isNew := 0
	for _, f := range fresh {
		if f {
			isNew++
		}
	}
	a.stats.Accepted.Add(int64(isNew))
	a.stats.Duplicate.Add(int64(len(entries) - isNew))
	return fresh, nil
}

// storeFault is the answer where the store failed. The store's error text is not
// sent, because it may name hosts and tables.
func storeFault(sender context.Context, err error) *httpapi.Answer {
	switch {
	case sender.Err() != nil:
		// The client has disconnected, which says nothing about the store.
		return httpapi.Unavailable("abandoned", "the connection was closed before the events were stored; send them again", err)
	case engine.KindOf(err) == engine.Permanent:
		a := refuse(http.StatusBadRequest, reasonStoreRefused, "the store does not take these events; sending them again does not help")
		if rejected := rejectedBy(err); len(rejected) > 0 {
			a = refusalOf(rejected)
		}
		a.Cause = err
		return a
	case errors.Is(err, engine.ErrAway):
		return httpapi.Unavailable("store_away", "the store is away; send the events again", err)
	default:
		return httpapi.Unavailable("store_failed", "the events could not be stored; send them again", err)
	}
}

// reasonStoreRefused is the reason of an event that the store rejects.
const reasonStoreRefused = "store_refused"

// rejection says why the store rejects an event, without the store's own text.
func rejection(fault error) (reason, text string) {
	if errors.Is(fault, engine.ErrBeforeHistory) {
		return "before_history", engine.ErrBeforeHistory.Error()
	}
	return reasonStoreRefused, "the store does not take this event; sending it again does not help"
}

// rejectedBy returns the faults of the entries that a store's error names, by their
// indexes; none where it names none.
func rejectedBy(err error) map[int]error {
	named, ok := errors.AsType[interface {
		error
		Rejected() map[int]error
	}](err)
	if !ok {
		return nil
	}
	return named.Rejected()
}

// refusalOf names the entries of a whole request that the store rejects.
func refusalOf(rejected map[int]error) *httpapi.Answer {
	var faults []httpapi.Fault
	for _, index := range slices.Sorted(maps.Keys(rejected)) {
		reason, text := rejection(rejected[index])
		faults = append(faults, httpapi.Fault{Index: &index, Reason: reason, Error: text})
	}
	return httpapi.Refuse(http.StatusBadRequest, faults...)
}
