package embedtest

type outcome uint8

const (
	faulty outcome = iota
	answered
	refused
)

// begin counts a request and draws its fault.
func (s *Server) begin(inputs []string) (Faults, fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Requests++
	s.counts.Inputs += len(inputs)
	for _, text := range inputs {
		s.inputs[text]++
	}
	s.counts.under++
	s.counts.MostAt = max(s.counts.MostAt, s.counts.under)
	return s.faults, s.faults.draw(s.random)
}

// end counts what became of it.
func (s *Server) end(o outcome, inputs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.under--
	switch o {
	case answered:
		s.counts.Answered++
		s.counts.Embedded += len(inputs)
		s.counts.Tokens += tokens(inputs)
	case refused:
		s.counts.Refused++
	default:
		s.counts.Faulty++
	}
}

func (s *Server) shuffle(items []item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
}
