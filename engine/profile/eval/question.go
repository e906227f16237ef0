package eval

import (
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// question asks where the user's profile of an instant puts the items.
type question struct {
	at     engine.Millis
	before int32   // how many of the user's events are strictly older
	items  []int32 // candidates; several only with a horizon
	kind   profile.EventType
	test   bool // it belongs to the part to test by
}

// asker goes through a user's events in their order.
type asker struct {
	*Timeline
	*user
	before  int            // events strictly older than the one that is looked at
	met     map[int32]bool // items of those
	last    int32          // product of the newest of those that has one
	instant engine.Millis
	items   []int32 // asked of this instant
}

// ask lists a user's questions.
func (t *Timeline) ask(u *user) {
	a := asker{Timeline: t, user: u, met: map[int32]bool{}, instant: engine.Earliest}
	day := int64(-1)
	for i := range u.events {
		e := &u.events[i]
		a.advance(i)
		switch {
		case e.at < t.ChooseFrom:
		case t.options.Horizon == 0:
			a.next(e)
		case dayOf(e.at) != day && a.before > 0:
			day = dayOf(e.at)
			a.horizon(e, i)
		}
	}
	for _, q := range u.questions {
		t.Questions[part(q.test)]++
	}
}

// part is the index of the part to choose by or the part to test by.
func part(test bool) int {
	if test {
		return 1
	}
	return 0
}

// advance notes the events that are strictly older than event i.
func (a *asker) advance(i int) {
	at := a.events[i].at
	if at != a.instant {
		a.instant, a.items = at, a.items[:0]
	}
	for ; a.before < i && a.events[a.before].at < at; a.before++ {
		e := &a.events[a.before]
		if a.candidate(e.thing) {
			a.met[e.thing] = true
		}
		if e.product != 0 {
			a.last = e.product
		}
	}
}

// next asks for the product of an event, where that is a question.
func (a *asker) next(e *event) {
	if e.product == 0 {
		return
	}
	test := e.at >= a.TestFrom
	reason := a.reason(e)
	if test {
		a.LeftOut.Products++
		if reason != nil {
			*reason++
		}
	}
	if reason == nil {
		a.items = append(a.items, e.thing)
		a.questions = append(a.questions, question{e.at, int32(a.before), []int32{e.thing}, e.kind, test})
	}
}

// reason returns the count of events that are no question for the same reason, nil for a question.
func (a *asker) reason(e *event) *int {
	left := &a.LeftOut
	switch {
	case e.thing < 0:
		return &left.Unknown
	case !a.candidate(e.thing):
		return &left.Cold
	case !a.options.asked(e.kind):
		return &left.OtherType
	case a.before == 0:
		return &left.First
	case slices.Contains(a.items, e.thing):
		return &left.SameInstant
	case !a.options.Repeats && a.met[e.thing], a.options.Repeats && e.product == a.last:
		return &left.Met
	}
	return nil
}

// asked reports whether events of a type may be questions.
func (o *Options) asked(kind profile.EventType) bool {
	return (o.Targets == 0 || kind == o.Targets) && !slices.Contains(o.Against, kind)
}

// horizon asks for what follows event i within the horizon. Where that reaches past the
// part's end, the future is not all there and nothing is asked.
func (a *asker) horizon(e *event, i int) {
	test := e.at >= a.TestFrom
	end := e.at + a.options.Horizon
	if test && end > a.Last || !test && end > a.TestFrom {
		return
	}
	var items []int32
	for _, later := range a.events[i:] {
		if later.at >= end {
			break
		}
		if a.candidate(later.thing) && (a.options.Repeats || !a.met[later.thing]) && !slices.Contains(items, later.thing) &&
			a.options.asked(later.kind) {
			items = append(items, later.thing)
		}
	}
	if len(items) > 0 {
		a.questions = append(a.questions, question{e.at, int32(a.before), items, e.kind, test})
	}
}

const dayMillis = 24 * 3600 * 1000

// dayOf returns the number of the day, in UTC.
func dayOf(at engine.Millis) int64 {
	day := int64(at) / dayMillis
	if int64(at)%dayMillis < 0 {
		day--
	}
	return day
}
