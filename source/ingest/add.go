package ingest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"keyfold/engine"
)

// errSenderLeft is the cause of an answer to a closed connection.
var errSenderLeft = errors.New("the sender left before the events were stored")

// addBatch stores the events of a request: all or none of them or, where partial,
// those that are good.
//
// An array that is no JSON as a whole is refused as a whole also where partial:
// one cannot tell where one element ends and the next begins.
func (h *Handler) addBatch(r *http.Request, b batch, partial bool) *reply {
	o, refused := b.readAll()
	if refused != nil {
		return refused
	}
	if n := o.faults.size(); n > 0 && (!partial || !b.separable()) {
		h.stats.Refused.Add(int64(n))
		return o.refusal()
	}
	if trace := engine.TraceOf(r.Header.Get); trace != nil {
		for i := range o.entries {
			o.entries[i].Trace = trace
		}
	}
	fresh, refused := h.add(r, o.entries)
	for refused != nil {
		rejected := rejectedBy(refused.cause)
		if !partial || len(rejected) == 0 {
			return refused
		}
		o.leaveOut(rejected)
		fresh, refused = h.add(r, o.entries)
	}
	if partial {
		return h.partialReply(&o, fresh)
	}
	return acceptedReply(o.entries, fresh)
}

// accepted is the answer to a request that is stored as a whole.
type accepted struct {
	Accepted   int      `json:"accepted"`
	Duplicate  int      `json:"duplicate"`
	MessageIDs []string `json:"message_ids"` // in the order of the request
}

func acceptedReply(entries []engine.Entry, fresh []bool) *reply {
	answer := accepted{MessageIDs: make([]string, len(entries))}
	for i := range entries {
		answer.MessageIDs[i] = entries[i].Event.MessageID
		if fresh[i] {
			answer.Accepted++
		}
	}
	answer.Duplicate = len(entries) - answer.Accepted
	return &reply{status: http.StatusAccepted, body: answer}
}

// add stores entries and counts them. fresh is aligned with entries.
func (h *Handler) add(r *http.Request, entries []engine.Entry) (fresh []bool, refused *reply) {
	if len(entries) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), StoreTimeout)
	defer cancel()
	fresh, err := h.store.Add(ctx, entries)
	if err != nil {
		refused := storeFault(r.Context(), err)
		if refused.status == http.StatusServiceUnavailable && !errors.Is(refused.cause, errSenderLeft) {
			h.ready.stored(err)
			h.notStored.Store(true)
		}
		return nil, refused
	}
	h.ready.stored(nil)
	h.notStored.Store(false)
	h.logRecovery()
	isNew := 0
	for _, f := range fresh {
		if f {
			isNew++
		}
	}
	h.stats.Accepted.Add(int64(isNew))
	h.stats.Duplicate.Add(int64(len(entries) - isNew))
	return fresh, nil
}

// storeFault is the answer where the store failed. The store's error text is not
// sent, because it may name hosts and tables.
func storeFault(sender context.Context, err error) *reply {
	var a *reply
	switch {
	case sender.Err() != nil:
		// The client has disconnected, which says nothing about the store.
		a, err = unavailable("abandoned", "the connection was closed before the events were stored; send them again"), errSenderLeft
	case engine.KindOf(err) == engine.Permanent:
		a = refuse(http.StatusBadRequest, reasonStoreRefused, "the store does not take these events; sending them again does not help")
		if faults := rejectedBy(err); len(faults) > 0 {
			a.body = refusalOf(faults)
		}
	case errors.Is(err, engine.ErrAway):
		a = unavailable("store_away", "the store is away; send the events again")
	default:
		a = unavailable("store_failed", "the events could not be stored; send them again")
	}
	a.cause = err
	return a
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
func refusalOf(rejected map[int]error) (faults refusal) {
	for _, index := range slices.Sorted(maps.Keys(rejected)) {
		if len(faults.Errors) == maxListed {
			faults.More++
			continue
		}
		reason, text := rejection(rejected[index])
		faults.Errors = append(faults.Errors, eventFault{Index: &index, Reason: reason, Error: text})
	}
	return faults
}
