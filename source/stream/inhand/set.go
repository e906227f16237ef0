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
	items []item // under mu: from the first that is not settled on, ascending
	next  uint64 // under mu: one above the last offset delivered
	users map[int32][]uint64
	bytes int64 // under mu: of what is not settled
	count int   // under mu: how many are not settled

	copies  map[uint64]int32 // under mu: the users of offsets whose copies are not confirmed
	copying map[int32]int    // under mu: how many those are, by user
	changed chan struct{}    // under mu: closed when copies are confirmed; nil while no flush waits
	ended   bool             // under mu
}

type item struct {
	offset  uint64
	user    int32
	bytes   int32
	settled bool
}

// New returns the set of a session that begins at an offset.
func New(stream profile.StreamID, from uint64) *Set {
	return &Set{stream: stream, next: from, users: map[int32][]uint64{}, copies: map[uint64]int32{}, copying: map[int32]int{}}
}

// Deliver adds an event of a user. Its offset is above those before it. It returns the bytes
// that the session has to give back: none after the end, which gave back all.
func (s *Set) Deliver(offset uint64, user int32, bytes int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, item{offset: offset, user: user, bytes: int32(bytes)})
	s.users[user] = append(s.users[user], offset)
	s.next = offset + 1
	s.bytes += int64(bytes)
	s.count++
	if s.ended {
		return 0
	}
	return int64(bytes)
}

// Settle takes an event out: it is done, or the copy that takes its place is confirmed. It
// returns the event's bytes, 0 where it was not in hand, or after the end.
func (s *Set) Settle(offset uint64) (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := slices.BinarySearchFunc(s.items, offset, func(i item, o uint64) int { return cmp.Compare(i.offset, o) })
	if !found || s.items[at].settled {
		return 0
	}
	i := &s.items[at]
	i.settled = true
	bytes = int64(i.bytes)
	s.bytes -= bytes
	s.count--
	s.forget(i.user, offset)
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

// forget takes an offset from its user's.
func (s *Set) forget(user int32, offset uint64) {
	held := s.users[user]
	at, found := slices.BinarySearch(held, offset)
	switch {
	case !found:
	case len(held) == 1:
		delete(s.users, user)
	case at == 0: // as nearly always
		s.users[user] = held[1:]
	default:
		s.users[user] = slices.Delete(held, at, at+1)
	}
}

// shift drops what is settled at the front.
func (s *Set) shift() {
	n := 0
	for n < len(s.items) && s.items[n].settled {
		n++
	}
	s.items = s.items[n:]
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
	held := s.users[user]
	if len(held) == 0 {
		return nil
	}
	places := make([]profile.Place, len(held))
	for i, o := range held {
		places[i] = profile.Place{Stream: s.stream, Offset: o}
	}
	return places
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
