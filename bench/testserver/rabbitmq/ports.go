package rabbittest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// block is a run of ports of 127.0.0.1 that one broker has for itself, from its
// start to its end: the first one is listened on here meanwhile, which keeps the
// brokers of other test binaries out also while none of the rest is in use, as
// before a start and after a kill. All lie below the range the system takes
// outgoing ports from.
type block struct {
	claim net.Listener
	first int
}

const (
	firstPort, lastPort = 20000, 30000
	blockSize           = 20
	// controls is how many ports rabbitmqctl may choose from; calls can overlap.
	controls = 11
)

func (b block) amqp() int       { return b.first + 1 }
func (b block) dist() int       { return b.first + 2 }
func (b block) epmd() int       { return b.first + 3 }
func (b block) management() int { return b.first + 4 }
func (b block) control() int    { return b.first + 5 }

// claimPorts returns a block that nobody has claimed, on which nobody listens.
func claimPorts() (block, error) {
	for range 1000 {
		first := firstPort + blockSize*rand.IntN((lastPort-firstPort)/blockSize)
		claim, err := net.Listen("tcp", address(first))
		if err != nil {
			continue
		}
		b := block{claim, first}
		if b.free() {
			return b, nil
		}
		claim.Close()
	}
	return block{}, fmt.Errorf("no %d free ports in a row from %d to %d", blockSize, firstPort, lastPort)
}

// free reports whether nobody listens on the ports of a claimed block.
func (b block) free() bool {
	for port := b.amqp(); port < b.control()+controls; port++ {
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
