package processor

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// read is what a work's marks are made of. It is empty where all events came by queues
// and are no copies of a stream's.
type read struct {
	// places are those of all events of the batch that were read from streams, settled
	// ones included.
	places  []profile.Place
	readers []profile.Reader // of the batch, each once
	// repeats are events that are in the profile by their ids alone, where no mark says
	// so: ids are dropped some day, and marks are not. They wait for a write with the marks.
	repeats []profile.Delivery
	// left: an event left the batch to come again, or as a dead letter.
	left bool
}

// readOf collects the places and readers of a batch.
func readOf(deliveries []profile.Delivery) (r read) {
	for i := range deliveries {
		d := &deliveries[i]
		if d.Reader == nil {
			continue
		}
		if r.places == nil {
			r.places = make([]profile.Place, 0, len(deliveries))
		}
		r.places = append(r.places, d.Place)
		if !slices.Contains(r.readers, d.Reader) {
			r.readers = append(r.readers, d.Reader)
		}
	}
	return r
}

// takeRepeats puts the repeats back among the events: the profile may be another now.
func (w *work) takeRepeats() {
	if len(w.read.repeats) > 0 {
		w.addEvents(w.read.repeats)
		w.read.repeats = nil
	}
}

func (w *work) addEvents(more []profile.Delivery) {
	b := profile.Batch{Deliveries: append(w.events, more...)}
	b.Sort()
	w.events = b.Deliveries
}

// streamChanged reports an event that the profile's marks cannot be about: its stream is another
// one, or its position was lost. Nothing of the work is settled.
func (f *flush) streamChanged(w *work) bool {
	if w.profile == nil {
		return false
	}
	for i := range w.events {
		d := &w.events[i]
		if d.Reader == nil {
			continue
		}
		if cause := w.profile.Contradicts(d.Place, d.Appended); cause != nil {
			err := changed(cause)
			f.ports.OnConfigError(err)
			f.finish(w, engine.Verdict{Outcome: engine.Unsettled, Err: err})
			return true
		}
	}
	return false
}

func changed(cause error) error {
	return engine.ConfigurationError("stream_changed", fmt.Errorf("a stream is another one than marks are of: %w. Nothing more is read from it until it is accepted: %s", cause, profile.AcceptCommand))
}

// dropMarked settles the events that are done by their marks. Copies of them are judged by
// themselves: where the mark stands for a copy that came to a queue, it is all that is left.
func (f *flush) dropMarked(w *work) {
	if w.profile == nil || len(w.profile.Marks) == 0 {
		return
	}
	marks := w.profile.Marks
	done := func(d profile.Delivery) bool {
		return d.Reader != nil && marks.Done(d.Place) || d.Reader == nil && marks.HasBeyond(d.Place)
	}
	var copies []profile.Delivery
	for i := range w.events {
		if done(w.events[i]) {
			copies = append(copies, w.takeCopies(w.events[i].Event.Digest)...)
		}
	}
	if len(copies) > 0 {
		w.addEvents(copies)
	}
	w.events = slices.DeleteFunc(w.events, func(d profile.Delivery) bool {
		if !done(d) {
			return false
		}
		f.stats.Replayed.Add(1)
		f.settleFolded(w, &d)
		return true
	})
}

// unmarked reports whether no mark says that the event is done, where one could.
func (w *work) unmarked(d *profile.Delivery) bool {
	return d.Place.Stream != 0 && !w.profile.Marks.Done(d.Place)
}

// allRead reports whether every event to be folded was read from a stream.
func (w *work) allRead() bool {
	for i := range w.events {
		if w.events[i].Reader == nil {
			return false
		}
	}
	return true
}

// mayMark reports whether a write can be due though nothing is folded. One of events whose
// products are missing alone is not: read again, they are judged again.
func (w *work) mayMark() bool {
	return w.profile != nil && (len(w.read.repeats) > 0 || w.read.left && len(w.read.places) > 0)
}

// awaitCopies waits until the copies of events that leave their batches are confirmed: a mark
// says that the event is done, and the copy is all that is left of it then. What is not
// confirmed stays in hand, and becomes a hole. It returns the time of the writes.
func (f *flush) awaitCopies(now engine.Millis) (engine.Millis, error) {
	waited := false
	for i := range f.works {
		w := &f.works[i]
		if !w.read.left {
			continue
		}
		for _, r := range w.read.readers {
			r.AwaitCopies(f.ctx, w.user)
			waited = true
		}
	}
	if !waited {
		return now, nil
	}
	return f.ports.Profiles.Now(f.ctx)
}

// marks returns the marks after the work's write.
func (w *work) marks() profile.Marks {
	var before profile.Marks
	if w.profile != nil {
		before = w.profile.Marks
	}
	p := profile.Progress{Read: w.read.places}
	for _, r := range w.read.readers {
		p.InHand = append(p.InHand, r.InHand(w.user)...)
	}
	p.Settled = slices.Grow(p.Settled, len(w.read.places))
	for _, deliveries := range [][]profile.Delivery{w.events, w.copies, w.read.repeats} {
		for i := range deliveries {
			switch d := &deliveries[i]; {
			case d.Reader != nil:
				p.Settled = append(p.Settled, d.Place)
			case d.Place.Stream != 0:
				p.Copies = append(p.Copies, d.Place)
			}
		}
	}
	if len(p.Read)+len(p.Copies) == 0 {
		return before
	}
	return before.After(p)
}

// marked is the next version of a profile, with nothing folded.
func (e *Engine) marked(of *profile.Profile, now engine.Millis) *profile.Profile {
	p := *of
	p.Version++
	p.WrittenAt = now
	p.Applied = p.Applied.WithRead(rand.Uint64(), nil, now, e.config.IDs)
	return &p
}

// finishRepeats settles the repeats of a work: as duplicates where their marks are written.
func (f *flush) finishRepeats(w *work, v engine.Verdict) {
	if v.Outcome == engine.Folded || v.Outcome == engine.Dead {
		v = engine.Verdict{Outcome: engine.Duplicate}
	}
	for i := range w.read.repeats {
		f.settle(&w.read.repeats[i], f.dated(w, &w.read.repeats[i], v))
	}
	w.read.repeats = nil
}
