package consume

import "sync"

// gate is open or shut, and tells when that changes.
type gate struct {
	mu       sync.Mutex
	shut     bool
	giveBack bool // what is held goes back, shut or not
	changed  chan struct{}
}

func newGate() *gate { return &gate{changed: make(chan struct{})} }

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == shut {
		return
	}
	g.shut = shut
	g.tell()
}

// tell wakes those who look at the gate. The caller holds mu.
func (g *gate) tell() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// recheck makes readers evaluate the gate again.
func (g *gate) recheck() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tell()
}

// requestGiveBack makes the reader return unacknowledged messages to the broker.
func (g *gate) requestGiveBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.giveBack = true
	g.tell()
}

// takeGiveBack reports whether that was asked for, once.
func (g *gate) takeGiveBack() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.giveBack
	g.giveBack = false
	return asked
}

// state returns whether the gate is shut, and a channel that is closed when that
// changes.
func (g *gate) state() (shut bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut, g.changed
}
