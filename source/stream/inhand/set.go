// Package inhand knows what one session of a stream has delivered and what of it is not
// settled: where a later session has to begin, and what a profile's marks must not count as
// done.
package inhand

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"keyfold/engine/profile"
)

// Set is what a session has in hand. Offsets are delivered in ascending order, with gaps:
// what a broker takes for itself is never delivered, and never waited for.
//
// It is safe for concurrent use.
type Set struct {
	stream profile.StreamID

	mu    sync.Mutex
	items []item           // under mu: from the first that is not settled on, ascending
	base  uint32           // under mu: the number of the first of items, which are counted round and round
	next  uint64           // under mu: one above the last offset delivered
	users map[int32]uint32 // under mu: the number of the youngest item, of those that have something in hand
	bytes int64            // under mu: of what is not settled
	count int              // under mu: how many are not settled

	copies  map[uint64]int32 // under mu: the users of offsets whose copies are not confirmed
	copying map[int32]int    // under mu: how many those are, by user
	changed chan struct{}    // under mu: closed when copies are confirmed; nil while no flush waits
	ended   bool             // under mu
}

// item is an event, in a chain of its user's that are not settled: a list by user would
// be allocated, and grow, with nearly every event. The first's older is its own number, and so
// is the last's younger. An event mostly leaves its chain before those that are younger: then
// the map is not looked at.
type item struct {
	offset         uint64
	user           int32
	bytes          int32
	older, younger uint32
}

// settled in the place of an item's bytes says that it waits for those before it alone.
const settled = -1

// New returns the set of a session that begins at an offset.
func New(stream profile.StreamID, from uint64) *Set {
	return &Set{stream: stream, next: from, users: map[int32]uint32{}, copies: map[uint64]int32{}, copying: map[int32]int{}}
}

// Event is an event that is delivered.
type Event struct {
	Offset uint64
	User   int32
	Bytes  int32
}

// Deliver adds an event of a user. Its offset is above those before it. It returns the bytes
// that the session has to give back: none after the end, which gave back all.
func (s *Set) Deliver(offset uint64, user int32, bytes int) int64 {
	return s.DeliverAll([]Event{{offset, user, int32(bytes)}})
}

// DeliverAll does what [Set.Deliver] does, for the events of a chunk.
func (s *Set) DeliverAll(events []Event) (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range events {
		e := &events[i]
		s.add(e)
		bytes += int64(e.Bytes)
	}
	s.bytes += bytes
	s.count += len(events)
	if s.ended {
		return 0
	}
	return bytes
}

// add puts an event behind the others, and behind its user's.
func (s *Set) add(e *Event) {
	number := s.base + uint32(len(s.items))
	older, found := s.users[e.User]
	if found {
		s.item(older).younger = number
	} else {
		older = number
	}
	s.items = append(s.items, item{offset: e.Offset, user: e.User, bytes: e.Bytes, older: older, younger: number})
	s.users[e.User] = number
	s.next = e.Offset + 1
}

// item returns the item of a number.
func (s *Set) item(number uint32) *item { return &s.items[number-s.base] }

// find returns the number of an offset's item. Offsets mostly have no gaps: it stands as far
// behind the first as its offset, or before that.
func (s *Set) find(offset uint64) (number uint32, found bool) {
	if len(s.items) == 0 || offset < s.items[0].offset {
		return 0, false
	}
	at := int(min(offset-s.items[0].offset, uint64(len(s.items)-1)))
	if s.items[at].offset != offset {
		at, found = slices.BinarySearchFunc(s.items[:at], offset, func(i item, o uint64) int { return cmp.Compare(i.offset, o) })
		if !found {
			return 0, false
		}
	}
	return s.base + uint32(at), true
}

// Settle takes an event out: it is done, or the copy that takes its place is confirmed. It
// returns the event's bytes, 0 where it was not in hand, or after the end.
func (s *Set) Settle(offset uint64) (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, found := s.find(offset)
	if !found || s.item(number).bytes == settled {
		return 0
	}
	i := s.item(number)
	bytes = int64(i.bytes)
	i.bytes = settled
	s.bytes -= bytes
	s.count--
	s.unchain(number, i)
	if _, copied := s.copies[offset]; copied {
		delete(s.copies, offset)
		if s.copying[i.user]--; s.copying[i.user] == 0 {
			delete(s.copying, i.user)
			s.wake()
		}
	}
	s.shift()
	if s.ended {
		return 0
	}
	return bytes
}

// unchain takes an item out of its user's.
func (s *Set) unchain(number uint32, i *item) {
	first, last := i.older == number, i.younger == number
	switch {
	case first && last:
		delete(s.users, i.user)
	case first: // as nearly always
		s.item(i.younger).older = i.younger
	case last:
		s.item(i.older).younger = i.older
		s.users[i.user] = i.older
	default:
		s.item(i.younger).older, s.item(i.older).younger = i.older, i.younger
	}
}

// shift drops what is settled at the front.
func (s *Set) shift() {
	n := 0
	for n < len(s.items) && s.items[n].bytes == settled {
		n++
	}
	s.items = s.items[n:]
	s.base += uint32(n)
}

// Position is the first offset that was delivered and is not settled, or one above the last.
// A session that begins there misses nothing.
func (s *Set) Position() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.items) > 0 {
		return s.items[0].offset
	}
	return s.next
}

// Held is how many events are not settled, and their bytes.
func (s *Set) Held() (events int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.bytes
}

// InHand returns the places of the user's events that are not settled.
func (s *Set) InHand(user int32) []profile.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, found := s.users[user]
	if !found {
		return nil
	}
	places := make([]profile.Place, 0, 8) // most have no more
	for {
		i := s.item(number)
		places = append(places, profile.Place{Stream: s.stream, Offset: i.offset})
		if i.older == number {
			slices.Reverse(places)
			return places
		}
		number = i.older
	}
}

// Copy notes that a copy is on its way to take an event's place. [Set.Settle] says that it is
// confirmed.
func (s *Set) Copy(offset uint64, user int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, noted := s.copies[offset]; !noted {
		s.copies[offset] = user
		s.copying[user]++
	}
}

// Copying reports whether a copy of one of the user's events is not confirmed, in a session
// that goes on.
func (s *Set) Copying(user int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && s.copying[user] > 0
}

// AwaitCopies waits until the user's copies are confirmed, or the session ends, or ctx does.
func (s *Set) AwaitCopies(ctx context.Context, user int32) {
	for {
		s.mu.Lock()
		if s.ended || s.copying[user] == 0 {
			s.mu.Unlock()
			return
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// End says that the session is over: no copy is confirmed any more. What is in hand stays, and
// can be settled; its bytes are returned, as they are no session's any more.
func (s *Set) End() (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0
	}
	s.ended = true
	s.wake()
	return s.bytes
}

// wake lets those go on that wait for copies. It runs under the lock.
func (s *Set) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
