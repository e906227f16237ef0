package rabbit

import "sync"

// gate is open or shut, and tells when that changes.
type gate struct {
	mu      sync.Mutex
	shut    bool
	changed chan struct{}
}

func newGate() *gate { return &gate{changed: make(chan struct{})} }

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == shut {
		return
	}
	g.shut = shut
	close(g.changed)
	g.changed = make(chan struct{})
}

// state returns whether the gate is shut, and a channel that is closed when that
// changes.
func (g *gate) state() (shut bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut, g.changed
}
