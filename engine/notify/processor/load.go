package processor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// load reads what is stored of the works that have not been read, in one call, but where
// some came for aliases.
func (f *flush) load() error {
	var read []*work
	for again := true; again; {
		works, err := f.read()
		if err != nil {
			return err
		}
		read = append(read, works...)
		again = f.follow(works)
	}
	gone := func(w *work) bool { return w.done }
	f.works = slices.DeleteFunc(f.works, gone)
	return f.loadReports(slices.DeleteFunc(read, gone))
}

// read reads works that have not been read, in one call, and returns them.
func (f *flush) read() (works []*work, err error) {
	var asks []notify.Ask
	for _, w := range f.works {
		if !w.loaded {
			w.tracks = f.config.Replay || slices.ContainsFunc(w.deliveries, func(d Delivery) bool { return d.endsOthers() })
			asks = append(asks, notify.Ask{
				User: w.user, Events: eventIDs(w.deliveries), Deferrals: w.tracks, Reports: reportsWanted(w.deliveries),
				Stale: !f.config.Replay && !w.met && !slices.ContainsFunc(w.deliveries, func(d Delivery) bool { return d.repeats() }),
			})
			works = append(works, w)
		}
	}
	if len(asks) == 0 {
		return nil, nil
	}
	standings, err := f.ports.Ledger.Load(f.ctx, asks)
	unreadable, some := errors.AsType[*notify.UnreadableError](err)
	// Where no user of several can be read, another version has written the rows.
	if some = some && (len(asks) == 1 || len(unreadable.Users) < len(asks)); err != nil && !some {
		return nil, fmt.Errorf("load %d users: %w", len(asks), err)
	}
	for i, w := range works {
		if some && unreadable.Users[w.user] != nil {
			f.logUnreadable(w, unreadable.Users[w.user])
			f.finish(w, Verdict{Outcome: Park, Err: fmt.Errorf("%w: %w", engine.ErrOwn, unreadable.Users[w.user])})
			continue
		}
		w.standing, w.loaded, w.met = standings[i], true, true
		if w.known == nil {
			w.known = map[uuid.UUID]notify.Known{}
		}
		w.reported = map[uuid.UUID]notify.Reported{}
		for j, id := range asks[i].Reports {
			w.reported[id] = standings[i].Reported[j]
		}
		for j, id := range asks[i].Events {
			if key := standings[i].Known[j]; key.Outcome != 0 {
				w.known[id] = key
			}
		}
	}
	return works, nil
}

// loadReports reads what was reported of the steps before follow-ups that are among the
// deferrals of a replay.
func (f *flush) loadReports(works []*work) error {
	if !f.config.Replay {
		return nil
	}
	var ids set
	for _, w := range works {
		for _, d := range w.standing.Deferred {
			if d.Event.Follows != nil {
				ids.add(d.Event.Follows.Before()...)
			}
		}
	}
	if len(ids.ids) == 0 {
		return nil
	}
	standings, err := f.ports.Ledger.Load(f.ctx, []notify.Ask{{User: works[0].user, Reports: ids.ids}})
	if err != nil {
		for _, w := range works {
			w.reload()
		}
		return fmt.Errorf("load reports of %d events: %w", len(ids.ids), err)
	}
	for _, w := range works {
		for i, id := range ids.ids {
			w.reported[id] = standings[0].Reported[i]
		}
	}
	return nil
}

// reload makes the next round read the work again.
func (w *work) reload() { w.loaded = false }

// decidedBefore reports whether the ledger has a record of a turn, or of a later
// one.
func (w *work) decidedBefore(item *notify.Due) bool {
	key, ok := w.known[item.Event.ID]
	return ok && (key.Outcome != notify.Later || key.Turn >= item.Turn.Number)
}

// settleKnown settles deliveries whose turns were decided before: the recorded
// decision is the answer. A recorded NOW that was not handed over is handed over
// again, and its delivery is settled then.
func (f *flush) settleKnown(w *work) (again []resend) {
	kept := w.deliveries[:0]
	for i := range w.deliveries {
		d := w.deliveries[i]
		items := d.items()
		known := 0
		for j := range items {
			if w.decidedBefore(&items[j]) {
				known++
				f.markAgain(w, &d, &items[j])
			}
		}
		if known == 0 || known < len(items) {
			kept = append(kept, d) // plan leaves out the items that are known
			continue
		}
		key := w.known[items[0].Event.ID]
		waits := f.undispatched(w, items)
		switch {
		case !key.Of(w.user) && (!key.Erased() || !w.erased()):
			f.settle(w, &d, Verdict{Outcome: Dead, Err: notify.ErrAnotherUser})
		case len(waits) > 0:
			again = append(again, resend{work: w, delivery: d, keys: waits})
		default:
			key.Dispatched = key.Dispatched || f.marks.has(key.EventID)
			f.settle(w, &d, Verdict{Outcome: Known, Key: key})
		}
	}
	clear(w.deliveries[len(kept):])
	w.deliveries = kept
	return again
}

// markAgain queues the mark of a deferral that was dispatched: its row is still there,
// because another call had locked it when the mark was written.
func (f *flush) markAgain(w *work, d *Delivery, item *notify.Due) {
	key := w.known[item.Event.ID]
	if d.Event == nil && key.Outcome == notify.Now && key.Dispatched && !f.marks.has(key.EventID) {
		f.marks.add(notify.DispatchMark{Event: key.EventID})
	}
}

// undispatched returns the keys of the turns that the ledger says are NOW and were not
// handed over, and that this process has not handed over since: one of each message.
func (f *flush) undispatched(w *work, items []notify.Due) (keys []notify.Known) {
	met := map[uuid.UUID]bool{}
	for i := range items {
		key := w.known[items[i].Event.ID]
		id := notify.DispatchID(key.EventID, key.DigestID)
		if key.Outcome == notify.Now && !key.Dispatched && !f.marks.has(key.EventID) && !met[id] {
			met[id] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// resend is a delivery whose recorded NOW was not handed over.
type resend struct {
	work     *work
	delivery Delivery
	keys     []notify.Known // of each message that was not
	gone     []uuid.UUID    // messages that have no record: they cannot be handed over
}

// lookup reads the dispatches of recorded decisions. One that the ledger does not have
// any more is left out: its user is erased, or its record was deleted.
func (f *flush) lookup(again []resend) ([]send, error) {
	if len(again) == 0 {
		return nil, nil
	}
	var keys []notify.Known
	for i := range again {
		keys = append(keys, again[i].keys...)
	}
	found, err := f.ports.Ledger.Dispatches(f.ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read undispatched decisions: %w", err)
	}
	sends := make([]send, len(found))
	read := map[uuid.UUID]bool{}
	for i := range found {
		read[found[i].ID] = true
		sends[i] = send{dispatch: found[i], again: true}
	}
	for i := range again {
		r := &again[i]
		for _, key := range r.keys {
			if id := notify.DispatchID(key.EventID, key.DigestID); !read[id] {
				r.gone = append(r.gone, id)
			}
		}
	}
	return sends, nil
}

// markGone queues the marks of dispatches that have no record: their deferrals must not come
// again for ever, nor be decided anew once their keys are deleted.
func (f *flush) markGone(r *resend) {
	for _, item := range r.delivery.items() {
		key := r.work.known[item.Event.ID]
		if key.Outcome == notify.Now && !key.Dispatched && slices.Contains(r.gone, notify.DispatchID(key.EventID, key.DigestID)) {
			f.marks.add(notify.DispatchMark{Event: key.EventID})
		}
	}
}

// learn takes what a refused commit said of keys.
func (w *work) learn(keys []notify.Known) {
	if w.known == nil {
		w.known = map[uuid.UUID]notify.Known{}
	}
	for _, key := range keys {
		w.known[key.EventID] = key
	}
}
