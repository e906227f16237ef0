package profile

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const stream = StreamID(1 << 8)

func places(offsets ...uint64) (all []Place) {
	for _, o := range offsets {
		all = append(all, Place{stream, o})
	}
	return all
}

// What one write does to a mark, case by case. The schedules of proof/streamsim show that
// these rules are enough.
func TestMarksAfter(t *testing.T) {
	mark := func(next uint64, holes, beyond []uint64) Marks {
		return Marks{{Stream: stream, Next: next, Holes: holes, Beyond: beyond}}
	}
	for name, c := range map[string]struct {
		before Marks
		write  Progress
		want   Marks
	}{
		"nothing":                      {nil, Progress{}, nil},
		"the offset 0 is an event":     {nil, Progress{Read: places(0)}, mark(1, nil, nil)},
		"the highest of a batch":       {mark(3, nil, nil), Progress{Read: places(7, 5)}, mark(8, nil, nil)},
		"it never falls":               {mark(9, nil, nil), Progress{Read: places(5)}, mark(9, nil, nil)},
		"overtaken ones are holes":     {mark(3, nil, nil), Progress{Read: places(7), InHand: places(9, 7, 5, 4), Settled: places(7)}, mark(8, []uint64{4, 5}, nil)},
		"not those done before":        {mark(6, nil, nil), Progress{Read: places(7), InHand: places(5, 6, 7), Settled: places(7)}, mark(8, []uint64{6}, nil)},
		"a copy that is not confirmed": {mark(3, nil, nil), Progress{Read: places(5, 7), InHand: places(5, 7), Settled: places(7)}, mark(8, []uint64{5}, nil)},
		"one above what is settled":    {mark(3, nil, nil), Progress{Read: places(5, 7), InHand: places(5, 7), Settled: places(5)}, mark(6, nil, nil)},
		"a confirmed copy":             {mark(3, nil, nil), Progress{Read: places(5, 7), InHand: places(7), Settled: places(7)}, mark(8, nil, nil)},
		"a hole is closed":             {mark(9, []uint64{4, 6}, nil), Progress{Read: places(4), Settled: places(4), InHand: places(4)}, mark(9, []uint64{6}, nil)},
		"a hole of another stays":      {mark(9, []uint64{4}, nil), Progress{Read: places(11)}, mark(12, []uint64{4}, nil)},
		"a copy closes its hole":       {mark(9, []uint64{4, 6}, nil), Progress{Copies: places(6)}, mark(9, []uint64{4}, nil)},
		"a copy below the mark":        {mark(9, nil, nil), Progress{Copies: places(6)}, mark(9, nil, nil)},
		"a copy beyond the mark":       {mark(3, nil, nil), Progress{Copies: places(8, 5)}, mark(3, nil, []uint64{5, 8})},
		"a copy without any mark":      {nil, Progress{Copies: places(0)}, mark(0, nil, []uint64{0})},
		"the mark passes a copy":       {mark(3, nil, []uint64{5, 8}), Progress{Read: places(6), InHand: places(5)}, mark(7, nil, []uint64{8})},
	} {
		if got := c.before.After(c.write); !got.Equal(c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	other := Place{2 << 8, 5}
	both := mark(3, nil, nil).After(Progress{Read: []Place{other, {stream, 4}}})
	if len(both) != 2 || !both.Done(Place{stream, 4}) || both.Done(Place{stream, 5}) || !both.Done(other) || both[1].Stream != other.Stream {
		t.Errorf("two streams have %+v", both)
	}
}

func TestMarksDone(t *testing.T) {
	m := Marks{{Stream: stream, Next: 9, Holes: []uint64{4}, Beyond: []uint64{12}}}
	for o, want := range map[uint64]bool{0: true, 4: false, 8: true, 9: false, 12: true, 13: false} {
		if p := (Place{stream, o}); m.Done(p) != want || m.HasBeyond(p) != (o == 12) {
			t.Errorf("offset %d is done: %v, beyond: %v", o, m.Done(p), m.HasBeyond(p))
		}
	}
	if Marks(nil).Done(Place{stream, 0}) {
		t.Error("nothing is marked, but an event is done")
	}
}

func drawAscending(t *rapid.T, name string) []uint64 {
	all := rapid.SliceOfNDistinct(rapid.OneOf(rapid.Uint64Range(0, 300), rapid.Uint64(), rapid.Just(uint64(math.MaxUint64))), 0, 5, rapid.ID).Draw(t, name)
	slices.Sort(all)
	return all
}

// What was stored is read back, and what was not written by AppendStored is refused.
func TestMarksEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Marks
		id := StreamID(0)
		for range rapid.IntRange(0, 3).Draw(t, "streams") {
			id += StreamID(rapid.Uint32Range(1, 1<<20).Draw(t, "id"))
			m = append(m, Mark{Stream: id, Next: rapid.Uint64().Draw(t, "next"), Holes: drawAscending(t, "holes"), Beyond: drawAscending(t, "beyond")})
		}
		b := m.AppendStored([]byte("x"))[1:]
		if read, err := ReadMarks(b); err != nil || !read.Equal(m) {
			t.Fatalf("%+v became %+v, %v", m, read, err)
		}
		if len(b) > m.MaxSize() {
			t.Fatalf("%d bytes are more than MaxSize, %d", len(b), m.MaxSize())
		}
		if len(b) == 0 {
			return
		}
		if cut := rapid.IntRange(1, len(b)).Draw(t, "cut"); cut < len(b) {
			if read, err := ReadMarks(b[:cut]); err == nil && read.Equal(m) {
				t.Fatalf("%d of %d bytes were read as all", cut, len(b))
			}
		}
	})
}

func FuzzReadMarks(f *testing.F) {
	f.Add(Marks{{Stream: stream, Next: 9, Holes: []uint64{4}, Beyond: []uint64{12}}}.AppendStored(nil))
	f.Add([]byte{storedMarks, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadMarks(b)
		if err != nil || len(m) == 0 {
			return
		}
		if again, err := ReadMarks(m.AppendStored(nil)); err != nil || !again.Equal(m) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
