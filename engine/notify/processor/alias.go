package processor

import (
	"cmp"
	"errors"
	"slices"

	"keyfold/engine/notify"
)

// follow hands what came for aliases to the users that they stand for, and reports whether
// works are to be read: those, and some that may have become aliases since they were read.
func (f *flush) follow(loaded []*work) (some bool) {
	for _, w := range loaded {
		switch {
		case w.done:
		case w.standing.State != nil && w.standing.State.MergedInto != "":
			f.handOver(w, w.standing.State.MergedInto)
			some = true
		case w.anothersEvent() && w.mayBeAlias(notify.ErrAnotherUser):
			some = true
		}
	}
	return some
}

// handOver makes a work one of another user.
func (f *flush) handOver(w *work, user string) {
	for i := range w.deliveries {
		w.deliveries[i].of(user)
	}
	at := slices.IndexFunc(f.works, func(o *work) bool { return o.user == user && !o.done })
	if at < 0 {
		w.user, w.known, w.met = user, nil, false
		w.reload()
		return
	}
	o := f.works[at]
	if o.deliveries = append(o.deliveries, w.deliveries...); f.config.Replay {
		slices.SortStableFunc(o.deliveries, func(a, b Delivery) int { return cmp.Compare(a.At, b.At) })
	} else {
		sortDeliveries(o.deliveries)
	}
	o.reload()
	w.deliveries, w.done = nil, true
}

// of makes a delivery one of the user that its own is an alias of.
func (d *Delivery) of(user string) {
	for _, item := range d.items() {
		item.Event.Person = user
	}
	if d.Cancel != nil {
		c := *d.Cancel
		c.User = user
		d.Cancel = &c
	}
}

// anothersEvent reports whether the key of an event is another user's.
func (w *work) anothersEvent() bool {
	for _, key := range w.known {
		if !key.Of(w.user) {
			return true
		}
	}
	return false
}

// erased reports whether the user is erased.
func (w *work) erased() bool { return w.standing.State != nil && w.standing.State.Erased }

// mayBeAlias has a work read again, once, of which the ledger says that an event is another
// user's: since the work was read, its user may have become an alias of that one.
func (w *work) mayBeAlias(err error) bool {
	if w.asked || !errors.Is(err, notify.ErrAnotherUser) {
		return false
	}
	w.asked = true
	w.reload()
	return true
}
