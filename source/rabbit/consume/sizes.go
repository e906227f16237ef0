package consume

import (
	"sync"

	"keyfold/engine/profile"
)

// messageBytes is what a held message takes up beside its body.
const messageBytes = 1 << 10

// sizes says how many messages fit the bytes that may be held, by the size they
// have of late. The prefetch counts messages, and the library buffers all of it:
// a full one of the largest events would be a hundred times one of usual ones.
// So a consumer starts with as many as fit of the largest, and has all of its
// prefetch once it has seen that they fit.
type sizes struct {
	prefetch int
	budget   int64 // 0: there is no bound

	mu    sync.Mutex
	mean  float64 // of the last ones
	seen  int     // before the first mean
	bytes int64   // of these
}

// sizesSeen is how many messages decide about the mean.
const sizesSeen = 64

func newSizes(prefetch int, budget int64) *sizes {
	return &sizes{prefetch: prefetch, budget: budget, mean: profile.MaxBodyBytes + messageBytes}
}

// note takes n messages that came together into the mean.
func (z *sizes) note(n int, bytes int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.seen >= sizesSeen {
		z.mean += (float64(bytes)/float64(n) - z.mean) * min(1, float64(n)/sizesSeen)
		return
	}
	z.seen += n
	if z.bytes += bytes; z.seen >= sizesSeen {
		z.mean = float64(z.bytes) / float64(z.seen)
	}
}

// capacity returns how many messages may be unacknowledged: all of the prefetch, or
// half of it at most. Half is what passGate lets pass: from there a consumer can
// be started anew without a wait for what is held.
func (z *sizes) capacity() int {
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

// fits reports whether n messages, of the size they have of late, are little more than
// may be held.
func (z *sizes) fits(n int) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return float64(n)*z.mean <= float64(z.budget)*1.25
}

// overBudget reports whether held exceeds the byte budget.
func (z *sizes) overBudget(held int64) bool { return z.budget > 0 && held > z.budget }

// underHalf reports whether held leaves half of the budget free.
func (z *sizes) underHalf(held int64) bool { return z.budget == 0 || held <= z.budget/2 }

// noteReceived notes what a channel has received together. Where more is held than may be, the
// consumers start anew; where much more would fit, further ones join them.
func (s *session) noteReceived(n int, bytes int64) {
	z := s.sizes
	if n == 0 || z.budget == 0 {
		return
	}
	z.note(n, bytes)
	if s.config.Partitions != nil {
		return // see balance.capacity
	}
	capacity, now := int64(z.capacity()), s.prefetch.Load()
	switch {
	case z.overBudget(s.bytes.Load()), s.config.Ordered && capacity > now+now/4:
		s.startAnew()
	case capacity > now+now/4 && s.prefetch.CompareAndSwap(now, capacity):
		for _, l := range s.live() {
			signal(l.change)
		}
	}
}

// startAnew has the consumers cancelled and started with what fits.
func (s *session) startAnew() {
	if s.resizing.CompareAndSwap(false, true) {
		s.gate.recheck()
	}
}

// room returns how many more messages the broker may deliver than are in hand, and the
// prefetch of the consumers.
func (s *session) room() (messages, inForce int64) {
	for _, l := range s.live() {
		messages += l.room()
		inForce += l.inForce.Load()
	}
	return messages, inForce
}

// relieve has windows closed early where little of the prefetch is left: messages that
// wait elsewhere, such as for their dead letters, may use up what the windows wait for.
func (s *session) relieve() {
	if room, inForce := s.room(); s.pressed != nil && room <= inForce/3 {
		s.pressed()
	}
}
