package ledger

import (
	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// Wanted are the dispatches of keys, and what a store reads for them.
type Wanted struct {
	Decisions []uuid.UUID // to read by their id
	Digests   []uuid.UUID // all decisions of which are to be read

	order []uuid.UUID // ids of the dispatches
}

// WantedOf returns what to read for the dispatches of keys.
func WantedOf(keys []notify.Known) (w Wanted) {
	met := map[uuid.UUID]bool{}
	for _, k := range keys {
		id := notify.DispatchID(k.EventID, k.DigestID)
		if met[id] {
			continue
		}
		met[id] = true
		w.order = append(w.order, id)
		if k.DigestID == uuid.Nil {
			w.Decisions = append(w.Decisions, k.DecisionID)
		} else {
			w.Digests = append(w.Digests, k.DigestID)
		}
	}
	return w
}

// None reports whether there is nothing to read.
func (w *Wanted) None() bool { return len(w.order) == 0 }

// Join returns the dispatches in the order of their keys. Those whose user was erased
// since the keys were read are left out.
func (w *Wanted) Join(decided []notify.Decided) []notify.Dispatch {
	byID := make(map[uuid.UUID]*notify.Dispatch, len(w.order))
	for _, d := range decided {
		if d.Event == nil {
			continue
		}
		id := notify.DispatchID(d.Record.EventID, d.Record.DigestID)
		if byID[id] == nil {
			byID[id] = &notify.Dispatch{ID: id}
		}
		byID[id].Records, byID[id].Events = append(byID[id].Records, d.Record), append(byID[id].Events, d.Event)
	}
	all := make([]notify.Dispatch, 0, len(w.order))
	for _, id := range w.order {
		if byID[id] != nil {
			all = append(all, *byID[id])
		}
	}
	return all
}
