package profile

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"keyfold/engine"
)

// StreamID names one epoch of a stream in a profile's marks: the [Epoch]'s number from bit 16
// on, the stream's generation from bit 8, and its partition from bit 1; bits 0 and 7 are free.
// 0 is no stream, as generations count from 1.
type StreamID uint32

// Epoch returns the epoch's number.
func (s StreamID) Epoch() uint16 { return uint16(s >> 16) }

// Place is where an event stands: an offset of a stream. The zero value is of an event
// that came by no stream.
type Place struct {
	Stream StreamID
	Offset uint64
}

// Reader is what reads a stream, as a flush sees it. It is one session: a later session
// of the same stream is another Reader.
type Reader interface {
	// InHand returns the places of the user's events that the reader delivered and that
	// are not settled, nor confirmed where a copy takes their place. Their order is free.
	InHand(user int32) []Place
	// AwaitCopies waits until the copies of the user's events that were settled to come
	// again, or as dead letters, are confirmed, or will not be: those stay in hand.
	AwaitCopies(ctx context.Context, user int32)
}

// Marks say of each stream which of the user's events are done. They travel in the same
// atomic write as the vector, so that whatever is read again, however long after, is known.
//
// They are a value like the profile they belong to: never changed, shared freely.
type Marks []Mark // in the order of their streams

// Mark is what is done of one stream.
type Mark struct {
	Stream StreamID
	// Next is the first offset above the mark: every event of the user below it is done,
	// except Holes. 0: no event is marked.
	Next   uint64
	Holes  []uint64 // offsets below Next that are not done, ascending
	Beyond []uint64 // offsets from Next on that are done, ascending
}

// Done reports whether an event that was read at this place is done. Of a copy that came by
// a queue it tells less: the copy itself may be what is left to do; see [Marks.HasBeyond].
func (m Marks) Done(p Place) bool {
	mark := m.of(p.Stream)
	if p.Offset < mark.Next {
		return !has(mark.Holes, p.Offset)
	}
	return has(mark.Beyond, p.Offset)
}

// HasBeyond reports whether the event of this place was folded as a copy, before any event
// behind it.
func (m Marks) HasBeyond(p Place) bool { return has(m.of(p.Stream).Beyond, p.Offset) }

// of returns the mark of a stream, which is empty where there is none.
func (m Marks) of(s StreamID) Mark {
	i, found := m.find(s)
	if !found {
		return Mark{Stream: s}
	}
	return m[i]
}

func (m Marks) find(s StreamID) (int, bool) {
	return slices.BinarySearchFunc(m, s, func(mark Mark, s StreamID) int { return cmp.Compare(mark.Stream, s) })
}

// Progress is what one write of a user counts as done.
type Progress struct {
	// Read are the places of all events of the batch that were read from streams. Those in
	// hand that the write does not settle are not done: their copies are not confirmed.
	Read []Place
	// Settled are the places of those that the write settles.
	Settled []Place
	// Copies are the places of those that came as copies by a queue.
	Copies []Place
	// InHand are what the readers of the batch hold of the user, the batch included.
	InHand []Place
}

// After returns the marks after a write. A mark becomes the highest offset read and never
// falls. What the readers hold of the user above the previous mark becomes holes: windows
// need not be in order, and a search that waits for its vector is overtaken.
func (m Marks) After(p Progress) Marks {
	next := slices.Clone(m)
	for _, s := range p.streams() {
		at, found := next.find(s)
		mark := m.of(s).after(p)
		switch {
		case found:
			next[at] = mark
		case mark.Next > 0 || len(mark.Beyond) > 0:
			next = slices.Insert(next, at, mark)
		}
	}
	if slices.EqualFunc(next, m, Mark.equal) {
		return m
	}
	return next
}

// Streamed is what streams have of a user, as of a time after the user's history was read.
type Streamed struct {
	// Settled are positions: each event below them is settled, whatever became of it.
	Settled []Place
	// Events are the user's at the positions and above, up to the ends of their streams.
	Events []StreamedEvent
}

// StreamedEvent is an event that a stream has.
type StreamedEvent struct {
	Place Place
	ID    AppliedID
}

// Below returns the marks where each event below these places is done, whatever became of it.
func (m Marks) Below(places []Place) Marks {
	next := slices.Clone(m)
	for _, p := range places {
		if p.Offset == 0 {
			continue
		}
		at, found := next.find(p.Stream)
		if !found {
			next = slices.Insert(next, at, Mark{Stream: p.Stream})
		}
		mark := &next[at]
		mark.Next = max(mark.Next, p.Offset)
		mark.Holes, mark.Beyond = from(mark.Holes, p.Offset), from(mark.Beyond, mark.Next)
	}
	return next
}

// from returns the offsets that are not below one.
func from(ascending []uint64, o uint64) []uint64 {
	i, _ := slices.BinarySearch(ascending, o)
	return ascending[i:]
}

// streams returns the streams that the write has to do with.
func (p *Progress) streams() (ids []StreamID) {
	for _, places := range [][]Place{p.Read, p.Copies} {
		for _, place := range places {
			if place.Stream != 0 && !slices.Contains(ids, place.Stream) {
				ids = append(ids, place.Stream)
			}
		}
	}
	return ids
}

func (k Mark) after(p Progress) Mark {
	next := Mark{Stream: k.Stream, Next: k.Next}
	inHand, copies := offsets(p.InHand, k.Stream), offsets(p.Copies, k.Stream)
	settled := offsets(p.Settled, k.Stream)
	read := slices.DeleteFunc(offsets(p.Read, k.Stream), func(o uint64) bool { return has(inHand, o) && !has(settled, o) })
	if n := len(read); n > 0 {
		next.Next = max(next.Next, read[n-1]+1)
	}
	done := func(o uint64) bool { return has(read, o) || has(copies, o) }
	for _, o := range k.Holes {
		if !done(o) {
			next.Holes = append(next.Holes, o)
		}
	}
	for _, o := range inHand {
		if o >= k.Next && o < next.Next && !done(o) && !has(k.Beyond, o) {
			next.Holes = append(next.Holes, o)
		}
	}
	for _, o := range k.Beyond {
		if o >= next.Next {
			next.Beyond = append(next.Beyond, o)
		}
	}
	for _, o := range copies {
		if o >= next.Next {
			next.Beyond = append(next.Beyond, o)
		}
	}
	slices.Sort(next.Beyond)
	next.Beyond = slices.Compact(next.Beyond)
	return next
}

// offsets returns the different offsets of one stream, ascending.
func offsets(places []Place, s StreamID) []uint64 {
	if len(places) == 0 {
		return nil
	}
	all := make([]uint64, 0, len(places))
	for _, p := range places {
		if p.Stream == s {
			all = append(all, p.Offset)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func has(ascending []uint64, o uint64) bool {
	_, found := slices.BinarySearch(ascending, o)
	return found
}

func (k Mark) equal(o Mark) bool {
	return k.Stream == o.Stream && k.Next == o.Next && slices.Equal(k.Holes, o.Holes) && slices.Equal(k.Beyond, o.Beyond)
}

// Equal reports whether both say the same.
func (m Marks) Equal(o Marks) bool { return slices.EqualFunc(m, o, Mark.equal) }

// storedMarks names the stored form: per stream 4 bytes of its id and 8 of Next,
// little-endian, and then holes and offsets beyond, each as their number and the distances
// from one to the next, varints.
const storedMarks = 1

const markBytes = 4 + 8

// AppendStored appends the stored form to b: nothing where there is no mark.
func (m Marks) AppendStored(b []byte) []byte {
	if len(m) == 0 {
		return b
	}
	b = append(b, storedMarks)
	for i := range m {
		b = binary.LittleEndian.AppendUint32(b, uint32(m[i].Stream))
		b = binary.LittleEndian.AppendUint64(b, m[i].Next)
		b = appendAscending(b, m[i].Holes)
		b = appendAscending(b, m[i].Beyond)
	}
	return b
}

// MaxSize is above the length of the stored form in bytes.
func (m Marks) MaxSize() int {
	n := 0
	for i := range m {
		n += 1 + markBytes + (2+len(m[i].Holes)+len(m[i].Beyond))*binary.MaxVarintLen64
	}
	return n
}

func appendAscending(b []byte, offsets []uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(offsets)))
	last := uint64(0)
	for _, o := range offsets {
		b = binary.AppendUvarint(b, o-last)
		last = o
	}
	return b
}

var errStoredMarks = errors.New("marks: not in a form that keyfold stores")

// ReadMarks reads what AppendStored wrote.
func ReadMarks(b []byte) (Marks, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[0] != storedMarks {
		return nil, errStoredMarks
	}
	var m Marks
	for b = b[1:]; len(b) > 0; {
		if len(b) < markBytes {
			return nil, errStoredMarks
		}
		mark := Mark{Stream: StreamID(binary.LittleEndian.Uint32(b)), Next: binary.LittleEndian.Uint64(b[4:])}
		b = b[markBytes:]
		var err error
		if mark.Holes, b, err = readAscending(b); err != nil {
			return nil, err
		}
		if mark.Beyond, b, err = readAscending(b); err != nil {
			return nil, err
		}
		if len(m) > 0 && m[len(m)-1].Stream >= mark.Stream {
			return nil, errStoredMarks
		}
		m = append(m, mark)
	}
	return m, nil
}

func readAscending(b []byte) (offsets []uint64, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)) { // each takes a byte or more
		return nil, nil, errStoredMarks
	}
	b = b[size:]
	last := uint64(0)
	for i := range n {
		step, size := binary.Uvarint(b)
		if size <= 0 || i > 0 && step == 0 || last+step < last {
			return nil, nil, errStoredMarks
		}
		last += step
		offsets, b = append(offsets, last), b[size:]
	}
	return offsets, b, nil
}

// clockMargin is by how much the broker's clock and the store's may differ.
const clockMargin = engine.Millis(5 * 60 * 1000)

// Contradicts returns what shows that the profile's marks cannot be about this event, nil where
// nothing does. Either it is done by them, and was appended after they were written: the stream was
// made anew under its name, or lost its end. Or the reader's position was lost: see
// [Profile.Ahead].
func (p *Profile) Contradicts(at Place, appended engine.Millis) error {
	if appended > p.WrittenAt+clockMargin && p.Marks.Done(at) {
		return fmt.Errorf("offset %d was stored at %v, and the profile of user %d, written at %v, has a mark above it: the stream was made anew or lost its end",
			at.Offset, appended.Time(), p.UserID, p.WrittenAt.Time())
	}
	return p.Ahead(at)
}

// Ahead returns an error where the profile has marks of a later epoch of a place's stream: the
// position that had the epoch was lost, and marks of an earlier stream would stand for this one.
func (p *Profile) Ahead(at Place) error {
	if latest := p.Marks.Latest(at.Stream); latest != at.Stream {
		return fmt.Errorf("it is read in epoch %d, and the profile of user %d has marks of epoch %d: the position that had the epoch was lost",
			at.Stream.Epoch(), p.UserID, latest.Epoch())
	}
	return nil
}

// Latest returns the latest epoch of a stream that there are marks of, and the given one where
// none is later.
func (m Marks) Latest(s StreamID) StreamID {
	for _, mark := range m {
		if uint16(mark.Stream) == uint16(s) {
			s = max(s, mark.Stream)
		}
	}
	return s
}
