package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are a run of ports of 127.0.0.1 that one server has for itself until
// Release. The one before the first is listened on here meanwhile, which keeps
// the servers of other test binaries out also while none of the rest is in use,
// as before a start and after a kill. All lie below the range the system takes
// outgoing ports from.
type Ports struct {
	claim net.Listener // nil: another process has it
	first int
}

const (
	lowest, highest = 20000, 30000
	blockSize       = 20
)

// ClaimPorts returns ports that no other test binary has claimed, and on which no
// process listens.
func ClaimPorts() (*Ports, error) {
	for range 1000 {
		claimed := lowest + blockSize*rand.IntN((highest-lowest)/blockSize)
		claim, err := net.Listen("tcp", address(claimed))
		if err != nil {
			continue
		}
		p := &Ports{claim, claimed + 1}
		if p.free() {
			return p, nil
		}
		p.Release()
	}
	return nil, fmt.Errorf("no %d free ports in a row from %d to %d", blockSize, lowest, highest)
}

// free reports whether no process listens on the ports.
func (p *Ports) free() bool {
	for i := range blockSize - 1 {
		l, err := net.Listen("tcp", p.Address(i))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// Port returns a port, counted from 0 to 18.
func (p *Ports) Port(i int) int { return p.first + i }

// Address returns the host and a port, counted from 0 to 18.
func (p *Ports) Address(i int) string { return address(p.Port(i)) }

// ClaimedElsewhere returns the ports that another process has claimed, of which this is the first.
func ClaimedElsewhere(first int) *Ports { return &Ports{first: first} }

// Release gives the ports up. It may be called again.
func (p *Ports) Release() {
	if p.claim != nil {
		p.claim.Close()
	}
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
