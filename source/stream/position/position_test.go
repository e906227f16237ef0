package position

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"keyfold/engine"
)

// naive keeps every offset and looks at all of them.
type naive struct {
	begin     Position
	offsets   []uint64
	chunks    map[uint64]Fingerprint // by offset
	settled   map[uint64]bool
	delivered Fingerprint // the last one
}

func (n *naive) position() Position {
	if len(n.offsets) == 0 {
		return n.begin
	}
	for _, offset := range n.offsets {
		if !n.settled[offset] && offset >= n.begin.Offset {
			return Position{Offset: offset, Chunk: n.chunks[offset]}
		}
	}
	return Position{Offset: max(n.begin.Offset, n.offsets[len(n.offsets)-1]+1), Chunk: n.delivered}
}

func (n *naive) unsettled() (count int) {
	for _, offset := range n.offsets {
		if !n.settled[offset] && offset >= n.begin.Offset {
			count++
		}
	}
	return count
}

// machine does the same to both.
type machine struct {
	set    *Set
	naive  naive
	chunks []*Chunk
	next   uint64
	last   uint64 // position
}

func (m *machine) Deliver(t *rapid.T) {
	gap := rapid.Uint64Range(0, 3).Draw(t, "gap")
	records := rapid.Uint32Range(1, 200).Draw(t, "records")
	f := Fingerprint{First: m.next + gap, At: engine.Millis(len(m.chunks)), CRC: records}
	c, err := m.set.Deliver(f, records)
	if err != nil {
		t.Fatal(err)
	}
	m.chunks = append(m.chunks, c)
	for i := range uint64(records) {
		m.naive.offsets = append(m.naive.offsets, f.First+i)
		m.naive.chunks[f.First+i] = f
	}
	m.naive.delivered, m.next = f, f.First+uint64(records)
}

// Settle settles some offsets of a chunk, also some that are not its own or settled already.
func (m *machine) Settle(t *rapid.T) {
	if len(m.chunks) == 0 {
		t.Skip("no chunk")
	}
	c := m.chunks[rapid.IntRange(max(0, len(m.chunks)-3), len(m.chunks)-1).Draw(t, "chunk")]
	first := c.fingerprint.First
	from := first + rapid.Uint64Range(0, uint64(c.records)).Draw(t, "from")
	for offset := from; offset < from+rapid.Uint64Range(1, 300).Draw(t, "many"); offset++ {
		own := offset >= first && offset < first+uint64(c.records) && !m.naive.settled[offset] && offset >= m.naive.begin.Offset
		if got := c.Settle(offset); got != own {
			t.Fatalf("settle %d: %v, want %v", offset, got, own)
		}
		if own {
			m.naive.settled[offset] = true
		}
	}
}

func (m *machine) Check(t *rapid.T) {
	got, want := m.set.Position(), m.naive.position()
	if got != want || m.set.Unsettled() != m.naive.unsettled() {
		t.Fatalf("%+v with %d, want %+v with %d", got, m.set.Unsettled(), want, m.naive.unsettled())
	}
	if got.Offset < m.last {
		t.Fatalf("the position fell from %d to %d", m.last, got.Offset)
	}
	m.last = got.Offset
}

// A set gives the position that a look at each delivered offset gives.
//
// Promise(rabbitmq/stream-position): A stream's position is the first delivered offset that is not settled, over gaps, and never falls.
func TestPositionEqualsTheSlowWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{naive: naive{chunks: map[uint64]Fingerprint{}, settled: map[uint64]bool{}}}
		if rapid.Bool().Draw(t, "begins anew") {
			// A reader is brought the whole chunk that holds its position.
			m.next = 1000
			m.naive.begin = Position{Offset: 1000 + rapid.Uint64Range(0, 100).Draw(t, "inside"), Chunk: Fingerprint{First: 1000}}
		}
		m.set = New(m.naive.begin)
		t.Repeat(map[string]func(*rapid.T){"deliver": m.Deliver, "settle": m.Settle, "": m.Check})
	})
}

func TestOrder(t *testing.T) {
	s := New(Position{})
	for _, first := range []uint64{5, 10} {
		if _, err := s.Deliver(Fingerprint{First: first}, 5); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Deliver(Fingerprint{First: 14}, 5); !errors.Is(err, ErrOrder) {
		t.Error(err)
	}
}

// Settling costs the same however much is open.
func BenchmarkSettle(b *testing.B) {
	const records = 1000
	b.ReportAllocs()
	s := New(Position{})
	var open []*Chunk
	first := uint64(0)
	for b.Loop() {
		c, err := s.Deliver(Fingerprint{First: first}, records)
		if err != nil {
			b.Fatal(err)
		}
		first += records
		if open = append(open, c); len(open) < 100 {
			continue
		}
		for offset := range uint64(records) {
			open[0].Settle(open[0].fingerprint.First + offset)
			s.Position()
		}
		open = open[1:]
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/offset")
}
