package profile

// Dedup tells the new events of a batch from those folded before. It is
// scratch space: one per goroutine, used again for every batch.
type Dedup struct {
	filter [64]uint64 // one bit per 12 bits of digest: most ids miss it
	marked []uint16   // filter words in use
	index  map[AppliedID]struct{}
	few    []AppliedID
	many   bool // the digests are in index, not in few

	twice, folded []bool
}

// fewDigests is up to where comparing digests one by one beats a map.
const fewDigests = 12

// Duplicates reports, aligned with the deliveries, which repeat an id of an
// earlier one of the batch, and which are in applied. It costs one pass over
// both: a batch of 500 against 4096 ids takes no 2 million comparisons. The
// answers are valid until the next call.
func (s *Dedup) Duplicates(deliveries []Delivery, applied Applied) (twice, folded []bool) {
	s.reset(len(deliveries))
	for i := range deliveries {
		s.twice = append(s.twice, !s.add(deliveries[i].Event.Digest.ID()))
		s.folded = append(s.folded, false)
	}
	if s.removeApplied(applied) {
		// What the ids took out of the set is folded already.
		for i := range deliveries {
			s.folded[i] = !s.has(deliveries[i].Event.Digest.ID())
		}
	}
	return s.twice, s.folded
}

func (s *Dedup) reset(n int) {
	for _, w := range s.marked {
		s.filter[w] = 0
	}
	s.marked, s.few = s.marked[:0], s.few[:0]
	s.twice, s.folded = s.twice[:0], s.folded[:0]
	clear(s.index)
	s.many = n > fewDigests
	if s.many && s.index == nil {
		s.index = make(map[AppliedID]struct{}, n)
	}
}

func slot(d AppliedID) (word uint16, bit uint64) {
	return uint16(d[0]) >> 2, 1 << (uint64(d[1]) & 63)
}

// add takes a digest in and reports whether it was new.
func (s *Dedup) add(d AppliedID) bool {
	if s.has(d) {
		return false
	}
	word, bit := slot(d)
	if s.filter[word] == 0 {
		s.marked = append(s.marked, word)
	}
	s.filter[word] |= bit
	if s.many {
		s.index[d] = struct{}{}
		return true
	}
	s.few = append(s.few, d)
	return true
}

func (s *Dedup) has(d AppliedID) bool {
	if word, bit := slot(d); s.filter[word]&bit == 0 {
		return false
	}
	if s.many {
		_, ok := s.index[d]
		return ok
	}
	for i := range s.few {
		if s.few[i] == d {
			return true
		}
	}
	return false
}

// removeApplied takes every applied id out and reports whether there was one.
func (s *Dedup) removeApplied(applied Applied) bool {
	found := false
	for i := range applied.IDs {
		d := &applied.IDs[i]
		// The filter is looked up here, not in has: this line decides what a
		// user with thousands of ids costs.
		if s.filter[d[0]>>2]&(1<<(d[1]&63)) == 0 || !s.has(*d) {
			continue
		}
		found = true
		if s.many {
			delete(s.index, *d)
			continue
		}
		for j := range s.few {
			if s.few[j] == *d {
				s.few = append(s.few[:j], s.few[j+1:]...)
				break
			}
		}
	}
	return found
}
