package reader

import (
	"testing"

	"keyfold/engine/profile"
)

// A position names the chunk that holds its offset, or the last one before it, and what lies
// before that is forgotten.
func TestTrail(t *testing.T) {
	chunk := func(first uint64) profile.Fingerprint { return profile.Fingerprint{First: first, CRC: uint32(first)} }
	read := trail{chunk(0), chunk(10), chunk(25)} // the broker took 20 to 24 for itself
	for _, c := range []struct {
		offset, first uint64
		left          int
	}{{0, 0, 3}, {9, 0, 3}, {10, 10, 2}, {24, 10, 2}, {25, 25, 1}, {99, 25, 1}} {
		if at := read.at(c.offset); at.Offset != c.offset || at.Chunk != chunk(c.first) || len(read) != c.left {
			t.Errorf("offset %d is at %+v, %d chunks are left", c.offset, at, len(read))
		}
	}
	var none trail
	if at := none.at(7); at != (profile.Position{}) {
		t.Errorf("nothing was read, and the position is %+v", at)
	}
}

// What waits for room goes on when there is some.
func TestHeld(t *testing.T) {
	h := newHeld(100)
	h.add(100)
	if h.full() != nil {
		t.Fatal("it is full at the bound")
	}
	h.add(1)
	freed := h.full()
	select {
	case <-freed:
		t.Fatal("above the bound there is room")
	default:
	}
	h.add(-1)
	<-freed
	if h.full() != nil {
		t.Error("it is full still")
	}
}
