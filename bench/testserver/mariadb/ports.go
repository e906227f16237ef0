package sqltest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePort returns a port of 127.0.0.1 nobody listens on. It lies below the
// range the system takes outgoing ports from, so that a server that is down for
// a moment finds its port free again.
func freePort() (int, error) {
	const first, count = 10000, 10000
	for range 1000 {
		port := first + rand.IntN(count)
		l, err := net.Listen("tcp", address(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d", first, first+count)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
