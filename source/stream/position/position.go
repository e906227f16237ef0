// Package position knows how far a reader of a stream is: which offsets were delivered to it
// and are not settled yet.
//
// Offsets of a stream have gaps, so that only delivered offsets count. The position is the
// first delivered offset that is not settled, or the one behind the last delivered where
// all are. A reader that begins there again misses nothing. It never falls.
package position

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"keyfold/engine"
)

// Fingerprint tells a chunk from any other, also from one of a stream that was deleted and
// made anew.
type Fingerprint struct {
	First uint64        // its first offset
	At    engine.Millis // when the broker stored it
	CRC   uint32
}

// Position is where to begin again.
type Position struct {
	Offset uint64
	// Chunk holds the offset, or is the last one delivered before it. Zero where there is
	// none yet.
	Chunk Fingerprint
}

// Set holds what one reader was delivered and has not settled. Its methods, and those of its
// chunks, may be called from several goroutines. Each takes constant time, amortised.
type Set struct {
	mu        sync.Mutex
	position  Position // where all is settled
	next      uint64   // behind the last chunk delivered
	open      []*Chunk // in order; of the first something is not settled
	unsettled int
}

// Chunk is a delivered one, where its offsets are settled.
type Chunk struct {
	set         *Set
	fingerprint Fingerprint
	records     uint32
	left        uint32   // not settled
	settled     []uint64 // a bit for each offset
	low         int      // words of settled below it are full
}

// New returns the set of a reader that begins at a position: what it is delivered below it
// counts as settled.
func New(begin Position) *Set { return &Set{position: begin} }

// ErrOrder: a chunk came whose offsets are not above those of the chunk before it.
var ErrOrder = errors.New("chunks of a stream came out of order")

// Deliver adds a chunk of records offsets in a row. Chunks come in the order of the stream.
func (s *Set) Deliver(f Fingerprint, records uint32) (*Chunk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.First < s.next {
		return nil, fmt.Errorf("%w: offset %d after %d", ErrOrder, f.First, s.next-1)
	}
	s.next = f.First + uint64(records)
	c := &Chunk{set: s, fingerprint: f, records: records, left: records, settled: make([]uint64, (records+63)/64)}
	for offset := f.First; offset < min(s.position.Offset, s.next); offset++ {
		c.mark(offset)
	}
	s.unsettled += int(c.left)
	s.open = append(s.open, c)
	s.advance()
	return c, nil
}

// Settle notes that an offset of the chunk is settled. It reports whether it was not before.
func (c *Chunk) Settle(offset uint64) bool {
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.mark(offset) {
		return false
	}
	s.unsettled--
	if c.left == 0 {
		s.advance()
	}
	return true
}

// mark sets an offset's bit. The caller holds mu.
func (c *Chunk) mark(offset uint64) bool {
	i := offset - c.fingerprint.First
	if offset < c.fingerprint.First || i >= uint64(c.records) {
		return false
	}
	word, bit := &c.settled[i/64], uint64(1)<<(i%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	c.left--
	return true
}

// advance lets go of chunks that are settled. The caller holds mu.
func (s *Set) advance() {
	for len(s.open) > 0 && s.open[0].left == 0 {
		c := s.open[0]
		s.open[0] = nil
		s.open = s.open[1:]
		s.position = Position{Offset: max(s.position.Offset, c.fingerprint.First+uint64(c.records)), Chunk: c.fingerprint}
	}
}

// Position returns where to begin again.
func (s *Set) Position() Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return s.position
	}
	c := s.open[0]
	return Position{Offset: c.lowest(), Chunk: c.fingerprint}
}

// lowest returns the first offset that is not settled, of a chunk that has one. The caller
// holds mu.
func (c *Chunk) lowest() uint64 {
	for c.settled[c.low] == ^uint64(0) {
		c.low++
	}
	return c.fingerprint.First + uint64(64*c.low+bits.TrailingZeros64(^c.settled[c.low]))
}

// Unsettled returns how many delivered offsets are not settled.
func (s *Set) Unsettled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsettled
}
