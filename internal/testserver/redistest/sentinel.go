package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
)

// Replica runs a copy of the server until the test's end, and returns when it has
// what the server has.
func (s *Server) Replica(t testing.TB) *Server {
	t.Helper()
	r := Start(t, "--replicaof", "127.0.0.1", port(s.Ports, plain))
	must.Hold(t, "a first copy", func() bool { return strings.Contains(r.Info("replication"), "master_link_status:up") })
	return r
}

// Sentinel runs a sentinel that watches the server under a name, until the
// test's end, and returns when it knows the server's replicas. It is [Patient].
// With the settings of a certificate it takes TLS too, and watches the server's
// TLS port, which it names to clients.
func (s *Server) Sentinel(t testing.TB, name string, settings ...string) *Server {
	t.Helper()
	watched := plain
	if secure(settings) {
		watched = overTLS
		settings = append(settings, "--tls-replication", "yes")
	}
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 1\nsentinel failover-timeout %s 2000\n", name, port(s.Ports, watched), name)
	sentinel := process.ForTest(t, func(dir string) (*Server, error) {
		config := filepath.Join(dir, "sentinel.conf") // a sentinel writes into it
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, err
		}
		return launch(dir, append([]string{config, "--sentinel"}, settings...))
	})
	_, replicas, _ := strings.Cut(s.Info("replication"), "connected_slaves:")
	replicas, _, _ = strings.Cut(replicas, "\r\n")
	must.Hold(t, "a sentinel that knows every replica", func() bool {
		return strings.Contains(sentinel.Info("sentinel"), "status=ok,address="+s.Ports.Address(watched)+",slaves="+replicas)
	})
	return sentinel
}

// How long a sentinel waits for an answer before it looks for another master.
// One that waits for half a second takes a busy machine for a dead server:
// a test makes it hasty only while it needs that.
const (
	Patient = 30 * time.Second
	Hasty   = 500 * time.Millisecond
)

// Wait sets how long a sentinel waits for the master of a name.
func (s *Server) Wait(t testing.TB, name string, d time.Duration) {
	t.Helper()
	s.Do(t, "SENTINEL", "SET", name, "down-after-milliseconds", strconv.FormatInt(d.Milliseconds(), 10))
}
