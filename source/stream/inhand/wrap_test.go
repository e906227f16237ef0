package inhand

import "testing"

// Numbers of items are counted round: those on both sides of the end make one chain.
func TestNumbersGoRound(t *testing.T) {
	s := New(1<<8, 0)
	s.base = ^uint32(0) - 2
	for o := range uint64(6) {
		s.Deliver(o, 7, 1)
	}
	for _, o := range []uint64{3, 0, 5} {
		if s.Settle(o) != 1 {
			t.Fatalf("offset %d was not in hand", o)
		}
	}
	var got []uint64
	for _, p := range s.InHand(7) {
		got = append(got, p.Offset)
	}
	if len(got) != 3 || got[0] != 1 || got[1] != 2 || got[2] != 4 {
		t.Fatalf("%v in hand, want 1, 2 and 4", got)
	}
	for o := range uint64(6) {
		s.Settle(o)
	}
	if s.InHand(7) != nil || s.Position() != 6 || s.base != 3 {
		t.Errorf("%v in hand, position %d, base %d", s.InHand(7), s.Position(), s.base)
	}
}
