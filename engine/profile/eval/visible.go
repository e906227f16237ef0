package eval

import "keyfold/engine"

// Visibility says from when on a user's profile holds an event.
type Visibility interface {
	// visible sets, for events in their order, from when on the profile holds each.
	// It returns how often the profile was written, 0 where that is not known.
	visible(events []event, from []engine.Millis) (writes int)
}

// Age has the profile hold each event that is at least as old.
type Age engine.Millis

func (a Age) visible(events []event, from []engine.Millis) int {
	for i := range events {
		from[i] = events[i].at + engine.Millis(a)
	}
	return 0
}

// Nightly has the profile made anew at each midnight (UTC).
type Nightly struct{}

func (Nightly) visible(events []event, from []engine.Millis) int {
	for i := range events {
		from[i] = engine.Millis((dayOf(events[i].at) + 1) * dayMillis)
	}
	return 0
}

// Windows has the profile written at the end of each window, as a worker does: Gap
// after the user's last event, Most after the first. Both 0: each event is written at
// once.
type Windows struct {
	Gap, Most engine.Millis
}

func (w Windows) visible(events []event, from []engine.Millis) (writes int) {
	for i := 0; i < len(events); writes++ {
		start := events[i].at
		end := min(start+w.Gap, start+w.Most)
		next := i
		for next < len(events) && events[next].at <= end {
			end = min(events[next].at+w.Gap, start+w.Most)
			next++
		}
		for ; i < next; i++ {
			from[i] = end
		}
	}
	return writes
}
