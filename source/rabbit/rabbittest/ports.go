package rabbittest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePorts returns n different ports of 127.0.0.1 nobody listens on. They lie
// below the range the system takes outgoing ports from, so that a broker that
// is down for a moment finds its port free again.
func freePorts(n int) ([]int, error) {
	const first, count = 20000, 10000
	var ports []int
	var open []net.Listener
	defer func() {
		for _, l := range open {
			l.Close()
		}
	}()
	for range 1000 {
		port := first + rand.IntN(count)
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		open, ports = append(open, l), append(ports, port)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports from %d to %d", n, first, first+count)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
