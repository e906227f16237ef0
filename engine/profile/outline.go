package profile

import "strconv"

// Outline is a body without the values that differ from one event to the next: user, product,
// time and message id. Many events have one outline, so that it and those values are what a
// worker has to hold of a body that it may have to send again. A value's place is a byte that
// no body of JSON has: the number of its field.
type Outline string

// Outlined is what a body has beside its event. Outline is nil where the body has none.
type Outlined struct {
	Outline    []byte
	OccurredAt []byte // the text of its time, in place
}

// cut is where a value stands in a body, a text with its quotes.
type cut struct {
	field    field
	from, to int32
}

// maxCuts is how many fields are cut out, each once.
const maxCuts = 4

func (q *quick) cut(name field, from int) {
	q.cuts[q.n] = cut{name, int32(from), int32(q.at)}
	q.n++
}

// outlined returns the outline, in room, after the event was read.
func (q *quick) outlined(room []byte) (o Outlined) {
	o.Outline = room[:0]
	at := int32(0)
	for _, c := range q.cuts[:q.n] {
		o.Outline = append(append(o.Outline, q.body[at:c.from]...), byte(c.field))
		if at = c.to; c.field == fieldOccurredAt {
			o.OccurredAt = q.body[c.from+1 : c.to-1]
		}
	}
	o.Outline = append(o.Outline, q.body[at:]...)
	return o
}

// AppendBody appends the body of an event that has this outline, and this text for its time.
func (o Outline) AppendBody(b []byte, e *Event, occurredAt string) []byte {
	from := 0
	for i := range len(o) {
		if o[i] >= ' ' {
			continue
		}
		b = append(b, o[from:i]...)
		from = i + 1
		switch field(o[i]) {
		case fieldUserID:
			b = strconv.AppendInt(b, int64(e.UserID), 10)
		case fieldProductID:
			b = strconv.AppendInt(b, int64(e.ProductID), 10)
		case fieldOccurredAt:
			b = append(append(append(b, '"'), occurredAt...), '"')
		case fieldMessageID:
			b = append(append(append(b, '"'), e.MessageID...), '"')
		}
	}
	return append(b, o[from:]...)
}
