package streamsim

import (
	"context"
	"iter"
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
)

// worker has readers, windows, and flushes under way.
type worker struct {
	world   *world
	engine  *processor.Engine
	readers []*reader
	open    map[int32][]profile.Delivery
	waiting []profile.Delivery // searches that wait for their vectors
	flights []*flight
	killed  bool
}

// flight is a call of Apply that stops at every port.
type flight struct {
	user int32
	next func() (struct{}, bool)
	stop func()
}

// read delivers the next event of one of the streams.
func (k *worker) read() {
	r := k.readers[k.world.r.IntN(len(k.readers))]
	if r.failed {
		k.reopen(r)
		return
	}
	d, e, ok := r.read()
	switch {
	case !ok:
	case e.slow:
		k.waiting = append(k.waiting, d)
	default:
		k.open[e.UserID] = append(k.open[e.UserID], d)
	}
}

// reopen begins a session at the position of the one before it, which some event was left to.
func (k *worker) reopen(r *reader) {
	i := slices.Index(k.readers, r)
	k.readers[i] = newReader(k, r.stream, r.Position())
}

// close has a search get its vector, or starts the flush of a part of a window.
func (k *worker) close() {
	rand := k.world.r
	if n := len(k.waiting); n > 0 && rand.IntN(3) == 0 {
		i := rand.IntN(n)
		d := k.waiting[i]
		k.waiting = slices.Delete(k.waiting, i, i+1)
		k.open[d.Event.UserID] = append(k.open[d.Event.UserID], d)
	}
	user := int32(1 + rand.IntN(users))
	window := k.open[user]
	if len(window) == 0 || slices.ContainsFunc(k.flights, func(f *flight) bool { return f.user == user }) {
		return
	}
	n := 1 + rand.IntN(len(window))
	batch := profile.Batch{UserID: user, Deliveries: window[:n:n]}
	k.open[user] = window[n:]
	k.flights = append(k.flights, k.fly(batch))
}

// flying is the key of a flight's yield in its context.
type flying struct{}

// abandoned ends a flight whose worker was killed.
type abandoned struct{}

func (k *worker) fly(b profile.Batch) *flight {
	return fly(b.UserID, func(ctx context.Context) { k.engine.Apply(ctx, []profile.Batch{b}) })
}

// fly begins what stops at every port.
func fly(user int32, do func(context.Context)) *flight {
	f := &flight{user: user}
	f.next, f.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil && r != (abandoned{}) {
				panic(r)
			}
		}()
		do(context.WithValue(context.Background(), flying{}, yield))
	})
	return f
}

// pause ends a flight's step, and the flight where its worker is gone.
func pause(ctx context.Context) {
	if yield, ok := ctx.Value(flying{}).(func(struct{}) bool); ok && !yield(struct{}{}) {
		panic(abandoned{})
	}
}

// advance takes one flight to its next call of a port.
func (k *worker) advance() { k.flights = k.world.advance(k.flights) }

func (w *world) advance(flights []*flight) []*flight {
	if len(flights) == 0 {
		return flights
	}
	i := w.r.IntN(len(flights))
	if _, more := flights[i].next(); !more {
		flights = slices.Delete(flights, i, i+1)
	}
	return flights
}

// confirm publishes, or confirms, one copy of a reader.
func (k *worker) confirm() {
	k.readers[k.world.r.IntN(len(k.readers))].confirm()
}

// kill ends the worker as `kill -9` does. The broker gives its copies back.
func (k *worker) kill() {
	k.killed = true
	for _, f := range k.flights {
		f.stop()
	}
	k.flights = nil
	for _, m := range k.world.queue {
		if m.owner == k {
			m.owner = nil
		}
	}
}

func (k *worker) idle() bool {
	if len(k.waiting)+len(k.flights) > 0 {
		return false
	}
	for _, window := range k.open {
		if len(window) > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(k.readers, func(r *reader) bool { return !r.idle() })
}

// copySettler settles the copy of an event.
type copySettler struct {
	message *message
	worker  *worker
}

// Settle does what a broker's channel would. What is published goes out in any case; the
// acknowledgement counts only where the message is this worker's still.
func (s *copySettler) Settle(v engine.Verdict) {
	w, m := s.worker.world, s.message
	w.note("%p: the copy of %v is %v, absent at %d, %v", s.worker, m.event.place, v.Outcome, v.AbsentAt, v.Err)
	settlement := v.Outcome.Settlement()
	switch settlement {
	case engine.DeadLetter:
		w.dead[m.event.MessageID]++
	case engine.RetryLater, engine.ParkLater:
		again := &message{event: m.event, bound: m.bound}
		if v.AbsentAt != 0 {
			again.bound = v.AbsentAt
		}
		w.queue = append(w.queue, again)
	default:
	}
	switch {
	case m.owner != s.worker:
	case settlement == engine.Leave:
		m.owner = nil
	default:
		w.queue = slices.DeleteFunc(w.queue, func(other *message) bool { return other == m })
	}
}
