package learned

import "slices"

const (
	// DefaultPairs is how many pairs are counted at once: 12 bytes each, twice that while
	// new ones are merged in, and 24 bytes each in the matrices that are made of them.
	DefaultPairs = 8 << 20
	// mostBuffered is how many pairs wait to be merged in; a fixed number, so that what is
	// dropped depends on the sessions alone.
	mostBuffered = 1 << 21
)

// Pairs counts in how many sessions each two things are together. Where there are more
// pairs than it has room for, those that were met least often are dropped: their counts
// begin anew with the next session that has them.
//
// Source: Manku and Motwani, "Approximate Frequency Counts over Data Streams", VLDB 2002.
type Pairs struct {
	Sessions []float64 // by thing: how many it is in
	Dropped  int64     // pairs that there was no room for

	limit  int
	buffer []uint64 // (lower thing, higher thing), as they came
	keys   []uint64 // sorted, each once
	counts []uint32 // of the keys
}

// NewPairs returns a counter for so many things, with room for that many pairs.
func NewPairs(things, limit int) *Pairs {
	return &Pairs{Sessions: make([]float64, things), limit: limit}
}

// Add adds a session, a list of different things.
func (p *Pairs) Add(session []int32) {
	for i, a := range session {
		p.Sessions[a]++
		for _, b := range session[:i] {
			if len(p.buffer) == mostBuffered {
				p.merge()
			}
			p.buffer = append(p.buffer, uint64(min(a, b))<<32|uint64(max(a, b)))
		}
	}
}

// merge counts what waits, and drops what there is no room for.
func (p *Pairs) merge() {
	slices.Sort(p.buffer)
	keys := make([]uint64, 0, len(p.keys)+len(p.buffer))
	counts := make([]uint32, 0, cap(keys))
	waiting := p.buffer
	for at := 0; at < len(p.keys) || len(waiting) > 0; {
		var key uint64
		var n uint32
		if at < len(p.keys) && (len(waiting) == 0 || p.keys[at] <= waiting[0]) {
			key, n = p.keys[at], p.counts[at]
			at++
		} else {
			key = waiting[0]
		}
		for len(waiting) > 0 && waiting[0] == key {
			waiting = waiting[1:]
			n++
		}
		keys, counts = append(keys, key), append(counts, n)
	}
	p.buffer, p.keys, p.counts = p.buffer[:0], keys, counts
	for least := uint32(1); len(p.keys) > p.limit; least++ {
		p.drop(least)
	}
}

// drop removes the pairs that were met so often.
func (p *Pairs) drop(times uint32) {
	kept := 0
	for i, n := range p.counts {
		if n > times {
			p.keys[kept], p.counts[kept] = p.keys[i], n
			kept++
		}
	}
	p.Dropped += int64(len(p.keys) - kept)
	p.keys, p.counts = p.keys[:kept], p.counts[:kept]
}

// Together returns in how many sessions each two things are, by thing.
func (p *Pairs) Together() *Matrix {
	p.merge()
	things := len(p.Sessions)
	m := &Matrix{start: make([]int, things+1), index: make([]int32, 2*len(p.keys)), value: make([]float64, 2*len(p.keys))}
	for _, key := range p.keys {
		m.start[key>>32+1]++
		m.start[uint32(key)+1]++
	}
	for i := range things {
		m.start[i+1] += m.start[i]
	}
	next := slices.Clone(m.start[:things])
	put := func(a, b uint64, n uint32) {
		m.index[next[a]], m.value[next[a]] = int32(b), float64(n)
		next[a]++
	}
	for i, key := range p.keys { // in this order each row's indexes ascend
		low, high := key>>32, uint64(uint32(key))
		put(low, high, p.counts[i])
		put(high, low, p.counts[i])
	}
	return m
}
