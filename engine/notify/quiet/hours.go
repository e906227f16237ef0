package quiet

import (
	"errors"
	"fmt"

	"keyfold/engine"
)

// Days are ISO weekdays: bit 1 is Monday, bit 7 Sunday. 0 is every day.
type Days uint8

// Has reports whether a weekday, 1 Monday to 7 Sunday, is one of the days.
func (d Days) Has(weekday int) bool { return d == 0 || d&(1<<weekday) != 0 }

// on reports whether a time is on one of the days.
func (d Days) on(w wall) bool { return d == 0 || d.Has(weekdayOf(w)) }

// Span is one stretch of quiet hours of the days on which it begins. With To at or
// before From it ends on the next day. From is quiet, To is not.
type Span struct {
	From Clock
	To   Clock
	Days Days
}

// Hours are a user's quiet hours. Their spans may touch and overlap.
type Hours []Span

// MaxSpans bounds the spans of [Hours].
const MaxSpans = 8

// Validate reports every fault: too many spans, times that are none, a span that
// ends where it begins, a week without a free minute. The functions of Hours expect
// hours without faults.
func (h Hours) Validate() error {
	var faults []error
	if len(h) > MaxSpans {
		faults = append(faults, fmt.Errorf("quiet hours have %d spans: give at most %d", len(h), MaxSpans))
	}
	for i, span := range h {
		if err := span.validate(); err != nil {
			faults = append(faults, fmt.Errorf("span %d: %w", i+1, err))
		}
	}
	if len(faults) == 0 && !h.free() {
		faults = append(faults, errors.New("quiet hours take the whole week: leave some minutes free, or mute the types"))
	}
	return errors.Join(faults...)
}

func (s Span) validate() error {
	switch {
	case s.From < 0 || s.From >= 24*60:
		return fmt.Errorf(`it begins at %v: "from" is at least 00:00 and before 24:00`, s.From)
	case s.To < 0 || s.To > 24*60:
		return fmt.Errorf(`it ends at %v: "to" is at least 00:00 and at most 24:00`, s.To)
	case s.From == s.To:
		return fmt.Errorf("it begins and ends at %v: for a whole day write from 00:00 to 24:00", s.From)
	case s.Days&1 != 0:
		return errors.New("its days have bit 0: Monday is bit 1 and Sunday bit 7")
	}
	return nil
}

// free reports whether some minute of the week is not quiet. If one is, there is
// one at the end of a span.
func (h Hours) free() bool {
	for _, span := range h {
		for weekday := range engine.Millis(7) {
			if w := weekday*day + span.To.millis(); h.until(w) <= w {
				return true
			}
		}
	}
	return len(h) == 0
}

// until returns the latest end of the spans with a time in them, and the time itself
// where there is none.
func (h Hours) until(w wall) wall {
	if len(h) == 0 {
		return w
	}
	today := midnight(w)
	since, latest := w-today, w
	for _, span := range h {
		from, to := span.From.millis(), span.To.millis()
		if to <= from {
			if since < to && span.Days.on(today-day) {
				latest = max(latest, today+to)
			}
			to += day
		}
		if from <= since && since < to && span.Days.on(today) {
			latest = max(latest, today+to)
		}
	}
	return latest
}

// begin returns the least begin of a span after a time.
func (h Hours) begin(w wall) wall {
	least := w + 8*day
	for _, span := range h {
		for ahead := range engine.Millis(8) {
			today := midnight(w) + ahead*day
			if from := today + span.From.millis(); from > w && span.Days.on(today) {
				least = min(least, from)
				break
			}
		}
	}
	return least
}

// Contains reports whether the zone's clock shows a quiet time at an instant.
func (h Hours) Contains(z *Zone, at engine.Millis) bool {
	if len(h) == 0 {
		return false
	}
	w := z.at(at).wall(at)
	return h.until(w) > w
}

// searchLimit bounds searches: hours without faults have a free minute and, if there
// are any, a quiet one in each week. A week may lose some in a gap of the clock.
const searchLimit = 31 * day

// End returns the least instant at or after at that is not quiet.
func (h Hours) End(z *Zone, at engine.Millis) engine.Millis {
	for limit := at + searchLimit; at < limit; {
		s := z.at(at)
		end := h.until(s.wall(at)) - s.offset
		if end == at {
			break
		}
		at = min(end, s.end)
	}
	return at
}

// NextEnd returns the end of the span that is, else of the next one; 0 without any.
// Spans that touch or overlap end together.
func (h Hours) NextEnd(z *Zone, at engine.Millis) engine.Millis {
	if len(h) == 0 {
		return 0
	}
	for limit := at + searchLimit; at < limit; {
		if h.Contains(z, at) {
			return h.End(z, at)
		}
		s := z.at(at)
		at = min(h.begin(s.wall(at))-s.offset, s.end)
	}
	return 0
}
