package streamsim

import (
	"context"
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/stream/inhand"
)

// reader is one session of a stream.
type reader struct {
	*inhand.Set
	worker *worker
	stream *stream
	at     int     // index of the next event
	copies []*held // those that are not confirmed
	failed bool    // an event was left: the session has to begin anew
}

// held is an event whose copy is to take its place.
type held struct {
	event     *event
	bound     engine.Millis
	dead      bool // the copy is a dead letter
	published bool
}

func newReader(k *worker, s *stream, from uint64) *reader {
	r := &reader{Set: inhand.New(s.id, from), worker: k, stream: s}
	r.at = slices.IndexFunc(s.events, func(e *event) bool { return e.place.Offset >= from })
	if r.at < 0 {
		r.at = len(s.events)
	}
	return r
}

// read returns the next event.
func (r *reader) read() (d profile.Delivery, e *event, ok bool) {
	if r.at >= r.stream.published {
		return d, nil, false
	}
	e = r.stream.events[r.at]
	r.at++
	r.Deliver(e.place.Offset, e.UserID, 1)
	return profile.Delivery{Event: e.Event, Place: e.place, Reader: r, Settler: engine.Once(&readSettler{r, e})}, e, true
}

// AwaitCopies is that of the set, as steps. Now and then its time is over before.
func (r *reader) AwaitCopies(ctx context.Context, user int32) {
	for r.Copying(user) {
		pause(ctx)
		if r.worker.world.r.IntN(40) == 0 {
			r.fail()
		}
	}
}

func (r *reader) fail() {
	r.failed = true
	r.End()
}

// confirm takes one copy further: it is published, and confirmed later, or never.
func (r *reader) confirm() {
	w := r.worker.world
	for _, h := range r.copies {
		switch {
		case r.failed, w.r.IntN(2) == 0:
			continue
		case h.published:
			r.Settle(h.event.place.Offset)
			r.copies = slices.DeleteFunc(r.copies, func(other *held) bool { return other == h })
		case w.step < wild && w.r.IntN(12) == 0:
			r.fail()
		case h.dead:
			h.published = true
			w.dead[h.event.MessageID]++
		default:
			h.published = true
			w.queue = append(w.queue, &message{event: h.event, bound: h.bound})
		}
		return
	}
}

func (r *reader) idle() bool {
	held, _ := r.Held()
	return !r.failed && r.at == len(r.stream.events) && held == 0
}

// readSettler settles an event that was read.
type readSettler struct {
	reader *reader
	event  *event
}

// Settle implements [engine.Settler].
func (s *readSettler) Settle(v engine.Verdict) {
	r, e := s.reader, s.event
	r.worker.world.note("%p: %v is %v, absent at %d, %v", r.worker, e.place, v.Outcome, v.AbsentAt, v.Err)
	switch v.Outcome.Settlement() {
	case engine.Ack:
		switch v.Outcome {
		case engine.Duplicate:
			r.worker.world.noteDuplicate(e)
		case engine.ProductMissing:
			r.worker.world.skipped[e.MessageID] = true
		default:
		}
		r.Settle(e.place.Offset)
	case engine.Leave:
		r.fail()
	default:
		r.Copy(e.place.Offset, e.UserID)
		r.copies = append(r.copies, &held{event: e, bound: v.AbsentAt, dead: v.Outcome.Settlement() == engine.DeadLetter})
	}
}
