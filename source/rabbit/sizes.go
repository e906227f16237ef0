package rabbit

import (
	"sync"

	"keyfold/engine"
)

// messageBytes is what a held message takes up beside its body.
const messageBytes = 1 << 10

// sizes says how many messages fit the bytes that may be held, by the size they
// have of late. The prefetch counts messages, and the library buffers all of it:
// a full one of the largest events would be a hundred times one of usual ones.
// So a consumer starts with as many as fit of the largest, and goes on with all
// of its prefetch once it has seen that they fit.
type sizes struct {
	prefetch int
	budget   int64 // 0: there is no bound

	mu   sync.Mutex
	mean float64 // of the last ones
}

func newSizes(prefetch int, budget int64) *sizes {
	return &sizes{prefetch: prefetch, budget: budget, mean: engine.MaxBodyBytes + messageBytes}
}

// note takes n messages that came together into the mean.
func (z *sizes) note(n int, bytes int64) {
	const memory = 64 // few enough that the first ones here decide
	z.mu.Lock()
	defer z.mu.Unlock()
	z.mean += (float64(bytes)/float64(n) - z.mean) * min(1, float64(n)/memory)
}

// fit returns how many messages may be unacknowledged: all of the prefetch, or
// half of it at most. Half is what passGate lets pass: from there a consumer can
// be started anew without a wait for what is held.
func (z *sizes) fit() int {
	if z.budget == 0 {
		return z.prefetch
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	n := int(float64(z.budget) / z.mean)
	if n >= z.prefetch {
		return z.prefetch
	}
	return max(1, min(n, z.prefetch/2))
}

// hold reports whether n messages, of the size they have of late, are little more than
// may be held.
func (z *sizes) hold(n int) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return float64(n)*z.mean <= float64(z.budget)*1.25
}

// full reports whether so many held bytes are more than may be.
func (z *sizes) full(held int64) bool { return z.budget > 0 && held > z.budget }

// roomy reports whether they leave half of the budget free.
func (z *sizes) roomy(held int64) bool { return z.budget == 0 || held <= z.budget/2 }

// sized notes what a channel has received together, and has the consumers start
// anew where the prefetch does not fit it any more: more is held than may be, or
// much more would fit.
func (s *session) sized(n int, bytes int64) {
	z := s.sizes
	if n == 0 || z.budget == 0 {
		return
	}
	z.note(n, bytes)
	if s.config.Partitions != nil {
		return // see balance.fit
	}
	if fit, now := z.fit(), int(s.prefetch.Load()); z.full(s.bytes.Load()) || fit > now+now/4 {
		if s.resizing.CompareAndSwap(false, true) {
			s.gate.renew()
		}
	}
}
