package reader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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

// What waits for room goes on when there is some, and has the windows closed before.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(100)
		h.add(100)
		asked := 0
		if err := h.await(t.Context(), func() { asked++ }); err != nil || asked != 0 {
			t.Fatalf("at the bound: %v, asked %d times", err, asked)
		}
		h.add(1)
		went := false
		go func() { went = h.await(t.Context(), func() { asked++ }) == nil }()
		if synctest.Wait(); went || asked != 1 {
			t.Fatalf("above the bound: went %v, asked %d times", went, asked)
		}
		h.add(-1)
		if synctest.Wait(); !went {
			t.Fatal("there is room, and nothing goes on")
		}
		h.add(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.await(ctx, func() {}); err == nil {
			t.Error("it did not end with its context")
		}
	})
}
