package ingest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"keyfold/engine"
)

// errSenderLeft is the cause of an answer that nobody reads.
var errSenderLeft = errors.New("the sender left before the events were stored")

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
		}
		return nil, refused
	}
	h.ready.stored(nil)
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

// storeFault is the answer where the store failed. Its words stay here: they
// may name hosts and tables.
func storeFault(sender context.Context, err error) *reply {
	var a *reply
	problem := "events refused: the store failed; see that it can be reached and written to"
	switch {
	case sender.Err() != nil:
		// Nobody reads this; the store may be as well as ever.
		a, err = unavailable("abandoned", "the connection was closed before the events were stored; send them again"), errSenderLeft
	case engine.KindOf(err) == engine.Permanent:
		a = refuse(http.StatusBadRequest, reasonStoreRefused, "the store does not take these events; sending them again does not help")
		if at := rejectedBy(err); len(at) > 0 {
			a.body = refusalOf(at)
		}
		problem = "events refused: the store does not take them; see whether its tables are those of this version"
	case errors.Is(err, engine.ErrAway):
		a = unavailable("store_away", "the store is away; send the events again")
	default:
		a = unavailable("store_failed", "the events could not be stored; send them again")
	}
	a.cause, a.problem = err, problem
	return a
}

// reasonStoreRefused is an event's that the store does not take.
const (
	reasonStoreRefused = "store_refused"
	textStoreRefused   = "the store does not take this event; sending it again does not help"
)

// rejectedBy returns the indexes of the entries that a store's error names, in
// order; none where it names none.
func rejectedBy(err error) []int {
	named, ok := errors.AsType[interface {
		error
		Rejected() map[int]error
	}](err)
	if !ok {
		return nil
	}
	return slices.Sorted(maps.Keys(named.Rejected()))
}

// refusalOf names the entries of a whole request that the store rejects.
func refusalOf(at []int) (faults refusal) {
	for _, index := range at {
		if len(faults.Errors) == maxListed {
			faults.More++
			continue
		}
		faults.Errors = append(faults.Errors, eventFault{Index: &index, Reason: reasonStoreRefused, Error: textStoreRefused})
	}
	return faults
}
