package daemon

import (
	"context"
	"sync"
)

// Pauser is what a worker pauses.
type Pauser interface {
	Pause()
	Resume()
}

// reason is a reason not to consume.
type reason uint8

const (
	badConfiguration reason = 1 << iota
	storeAway
	unfit
)

// pause pauses while there is at least one reason to. The reasons are independent of
// each other.
type pause struct {
	mu      sync.Mutex
	reasons reason
}

func (p *pause) set(c Pauser, why reason, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.reasons
	if on {
		p.reasons |= why
	} else {
		p.reasons &^= why
	}
	switch {
	case before == 0 && p.reasons != 0:
		c.Pause()
	case before != 0 && p.reasons == 0:
		c.Resume()
	}
}

// Consumer is a source of events that a worker pauses.
type Consumer interface {
	Pauser
	// GiveBack has the broker take back all that is not acknowledged.
	GiveBack()
	// Ready returns nil while events are consumed, and otherwise why not.
	Ready() error
	// Close waits for acknowledgements that are being sent, and disconnects.
	Close(context.Context) error
}
