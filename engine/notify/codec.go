package notify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/similar"
)

// stateVersion is the first byte of a state's binary form. Version 1 has no reservations,
// version 2 nothing that limits count.
const stateVersion = 3

// Bits of the second byte.
const (
	bitErased    = 1 << iota // the user is erased
	bitDigest                // a digest's id is there
	bitMerged                // the user is an alias
	bitsOfStates = bitErased | bitDigest | bitMerged
)

// Append appends the state's binary form, which [ReadState] reads: a version byte,
// a byte of flags, decided_at; the number of sends, the first one and the steps
// from each to the next; a byte with a bit for each type that was sent, and when;
// the number of marks, and each; the digest; the number of reservations, and each; the
// number of entries that limits count, and each; of an alias, the length of the user's id,
// and that. Numbers are variable-length integers.
func (s *State) Append(b []byte) []byte {
	var flags byte
	if s.Erased {
		flags |= bitErased
	}
	if s.LastDigest != uuid.Nil {
		flags |= bitDigest
	}
	if s.MergedInto != "" {
		flags |= bitMerged
	}
	b = append(b, stateVersion, flags)
	b = binary.AppendVarint(b, int64(s.DecidedAt))
	b = binary.AppendUvarint(b, uint64(len(s.Sends)))
	before := engine.Millis(0)
	for _, at := range s.Sends {
		b = binary.AppendVarint(b, int64(at-before))
		before = at
	}
	b = s.appendLastSends(b)
	b = binary.AppendUvarint(b, uint64(len(s.Marks)))
	for i := range s.Marks {
		b = s.Marks[i].append(b)
	}
	if flags&bitDigest != 0 {
		b = append(b, s.LastDigest[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Reserved)))
	before = 0
	for i := range s.Reserved {
		r := &s.Reserved[i]
		b = append(b, r.EventID[:]...)
		b = binary.AppendVarint(r.append(b, before), int64(r.At-r.Made))
		before = r.At
	}
	b = binary.AppendUvarint(b, uint64(len(s.Sent)))
	before = 0
	for i := range s.Sent {
		b = s.Sent[i].append(b, before)
		before = s.Sent[i].At
	}
	if s.MergedInto != "" {
		b = append(binary.AppendUvarint(b, uint64(len(s.MergedInto))), s.MergedInto...)
	}
	return b
}

// Bits of an entry that limits count, above those of its channels.
const (
	bitItem = 1 << (iota + channelCount)
	bitFollow
	bitKeys
	bitsOfSent = 1<<(iota+channelCount) - 2 // a set has no channel 0
)

// append appends the type, the channels with the bits, the source, the keys if there are
// any, and the step from an instant.
func (s *Sent) append(b []byte, before engine.Millis) []byte {
	bits := uint64(s.Channels)
	if s.Item {
		bits |= bitItem
	}
	if s.Follow {
		bits |= bitFollow
	}
	if s.Keys != [MaxKeys]uint32{} {
		bits |= bitKeys
	}
	b = binary.AppendUvarint(append(b, byte(s.Type)), bits)
	b = binary.LittleEndian.AppendUint32(b, s.Source)
	for i := 0; i < MaxKeys && bits&bitKeys != 0; i++ {
		b = binary.LittleEndian.AppendUint32(b, s.Keys[i])
	}
	return binary.AppendVarint(b, int64(s.At-before))
}

// bitExact is set in the type of a mark whose print is short.
const bitExact = 0x80

func (m *Mark) append(b []byte) []byte {
	b = append(b, m.EventID[:]...)
	if exact := m.Print.Exact(); m.Print == exact {
		return exact.AppendExact(binary.AppendVarint(append(b, byte(m.Type)|bitExact), int64(m.At)))
	}
	return m.Print.Append(binary.AppendVarint(append(b, byte(m.Type)), int64(m.At)))
}

func (s *State) appendLastSends(b []byte) []byte {
	bits := len(b)
	b = append(b, 0)
	for _, t := range EventTypes {
		if at := s.LastSend[t]; at != 0 {
			b[bits] |= 1 << (t - 1)
			b = binary.AppendVarint(b, int64(at))
		}
	}
	return b
}

// ReadState reads what [State.Append] has written. It refuses all else: a newer
// version, a text that is cut off or goes on, entries over the bounds or out of
// their order.
func ReadState(b []byte) (*State, error) {
	r := stateReader{rest: b}
	s := r.state()
	if r.err == nil && len(r.rest) > 0 {
		r.fail(fmt.Errorf("%d bytes are left behind its end", len(r.rest)))
	}
	if r.err != nil {
		return nil, fmt.Errorf("the stored state cannot be read (%d bytes): %w: restore the user from a backup, or forget the user", len(b), r.err)
	}
	return s, nil
}

// stateReader reads from the front of rest until an error.
type stateReader struct {
	rest []byte
	err  error
}

var errStateCutOff = errors.New("it is cut off")

func (r *stateReader) fail(err error) {
	if r.err == nil {
		r.err, r.rest = err, nil
	}
}

func (r *stateReader) take(n int) []byte {
	if len(r.rest) < n {
		r.fail(errStateCutOff)
		return make([]byte, n)
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *stateReader) number() int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 {
		r.fail(errStateCutOff)
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// length reads how many entries follow.
func (r *stateReader) length(limit int, of string) int {
	n := r.bits()
	if n > uint64(limit) {
		r.fail(fmt.Errorf("it has %d %s, expected at most %d", n, of, limit))
		return 0
	}
	return int(n)
}

func (r *stateReader) state() *State {
	head := r.take(2)
	if r.err == nil && (head[0] == 0 || head[0] > stateVersion) {
		r.fail(fmt.Errorf("it is of version %d, expected at most %d: it needs another keyfold", head[0], stateVersion))
	}
	if head[1]&^bitsOfStates != 0 {
		r.fail(fmt.Errorf("it has the unknown flags %#x", head[1]))
	}
	s := &State{Erased: head[1]&bitErased != 0}
	s.DecidedAt = engine.Millis(r.number())
	r.sends(s)
	r.lastSends(s)
	r.marks(s)
	if head[1]&bitDigest != 0 {
		s.LastDigest = uuid.UUID(r.take(16))
		if s.LastDigest == uuid.Nil {
			r.fail(errors.New("its digest is the zero UUID"))
		}
	}
	if head[0] > 1 {
		r.reservations(s, head[0])
	}
	if head[0] > 2 {
		r.counted(s)
	}
	if head[1]&bitMerged != 0 {
		s.MergedInto = string(r.take(r.length(MaxUserRunes*utf8.UTFMax, "bytes of the id of a user")))
	}
	return s
}

// counted reads what limits count.
func (r *stateReader) counted(s *State) {
	n := r.length(MaxSends*len(EventTypes), "entries that limits count")
	if n == 0 {
		return
	}
	s.Sent = make([]Sent, 0, n)
	at := engine.Millis(0)
	for range n {
		one := r.sent(at)
		if r.err != nil {
			return
		}
		at = one.At
		s.Sent = append(s.Sent, one)
	}
}

// sent reads an entry that limits count, which follows one at an instant.
func (r *stateReader) sent(before engine.Millis) (s Sent) {
	s.Type = EventType(r.take(1)[0])
	bits := r.bits()
	s.Channels, s.Item, s.Follow = ChannelSet(bits&(1<<channelCount-1)), bits&bitItem != 0, bits&bitFollow != 0
	s.Source = binary.LittleEndian.Uint32(r.take(4))
	for i := 0; i < MaxKeys && bits&bitKeys != 0; i++ {
		s.Keys[i] = binary.LittleEndian.Uint32(r.take(4))
	}
	s.At = before + engine.Millis(r.number())
	switch {
	case s.Type == 0 || s.Type >= typeCount:
		r.fail(fmt.Errorf("an entry has the unknown type %d", s.Type))
	case bits&^bitsOfSent != 0:
		r.fail(fmt.Errorf("an entry has the unknown bits %#x", bits))
	case before != 0 && s.At < before:
		r.fail(errors.New("its entries are out of order"))
	}
	return s
}

// bits reads a number that is not negative.
func (r *stateReader) bits() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.fail(errStateCutOff)
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *stateReader) reservations(s *State, version byte) {
	at := engine.Millis(0)
	for i := range r.length(MaxSends, "reservations") {
		one := Reservation{EventID: uuid.UUID(r.take(16))}
		if version == 2 {
			one.Type = EventType(r.take(1)[0])
			one.At = at + engine.Millis(r.number())
		} else {
			one.Sent = r.sent(at)
		}
		one.Made = one.At - engine.Millis(r.number())
		if i > 0 && one.At < at {
			r.fail(errors.New("its reservations are out of order"))
		}
		if one.Type == 0 || one.Type >= typeCount {
			r.fail(fmt.Errorf("a reservation has the unknown type %d", one.Type))
		}
		if r.err != nil {
			return
		}
		at = one.At
		s.Reserved = append(s.Reserved, one)
	}
}

func (r *stateReader) sends(s *State) {
	n := r.length(MaxSends, "sends")
	if n == 0 {
		return
	}
	s.Sends = make([]engine.Millis, n)
	at := engine.Millis(0)
	for i := range s.Sends {
		step := engine.Millis(r.number())
		if i > 0 && at+step < at {
			r.fail(errors.New("its sends are out of order"))
		}
		at += step
		s.Sends[i] = at
	}
}

func (r *stateReader) lastSends(s *State) {
	bits := r.take(1)[0]
	for _, t := range EventTypes {
		if bits&(1<<(t-1)) == 0 {
			continue
		}
		if s.LastSend[t] = engine.Millis(r.number()); s.LastSend[t] == 0 {
			r.fail(errors.New("a last send is zero"))
		}
	}
}

func (r *stateReader) marks(s *State) {
	n := r.length(MaxMarks*len(EventTypes), "marks")
	for range n {
		id, kind := uuid.UUID(r.take(16)), r.take(1)[0]
		m := Mark{EventID: id, Type: EventType(kind &^ bitExact), At: engine.Millis(r.number())}
		if m.Type == 0 || m.Type >= typeCount {
			r.fail(fmt.Errorf("a mark has the unknown type %d", m.Type))
		}
		if r.err != nil {
			return
		}
		read := similar.Read
		if kind&bitExact != 0 {
			read = similar.ReadExact
		}
		var err error
		if m.Print, r.rest, err = read(r.rest); err != nil {
			r.fail(err)
			return
		}
		s.Marks = append(s.Marks, m)
	}
}
