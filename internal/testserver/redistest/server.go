package redistest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"keyfold/internal/testserver/process"
)

// Server is one private Redis server.
type Server struct{ process.Server }

// Start runs a server until the test's end. Settings are written as on
// redis-server's command line: "--requirepass", "secret". With those of
// [Authority.Issue] it takes TLS too, at its TLSURL.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return process.ForTest(t, func(dir string) (*Server, error) { return Launch(dir, settings...) })
}

// Launch runs a server outside of tests, all of its files in dir. The caller
// stops it.
func Launch(dir string, settings ...string) (*Server, error) {
	args := []string{
		// What a real server would have on its disk after a kill, it has.
		"--appendonly", "yes", "--appendfsync", "always", "--save", "",
		"--repl-diskless-sync-delay", "0", // a replica's first copy waits 5 s otherwise
	}
	return launch(dir, append(args, settings...))
}

func launch(dir string, args []string) (*Server, error) {
	path, err := process.Find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	ports, err := process.ClaimPorts()
	if err != nil {
		return nil, err
	}
	args = append(args, "--port", port(ports, plain), "--bind", "127.0.0.1", "--dir", dir)
	if secure(args) {
		args = append(args, "--tls-port", port(ports, overTLS))
	}
	if slices.Contains(args, "--cluster-enabled") {
		args = append(args, "--cluster-port", port(ports, clusterBus))
	}
	s := &Server{process.Server{Dir: dir, Path: path, Args: args, Ports: ports}}
	s.Answers = s.answers
	if err := s.Boot(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// A server's ports.
const (
	plain = iota
	overTLS
	clusterBus
)

func port(ports *process.Ports, i int) string { return strconv.Itoa(ports.Port(i)) }

// secure reports whether there is a certificate among settings.
func secure(settings []string) bool { return slices.Contains(settings, "--tls-cert-file") }

// answers reports whether the server replies, if only that it wants a password.
func (s *Server) answers(context.Context) bool {
	reply, err := s.Ask("PING")
	return err == nil && reply != "" && !strings.HasPrefix(reply, "-LOADING")
}

// URL returns the server's URL, without a password.
func (s *Server) URL() string { return "redis://" + s.Address() }

// TLSURL returns the URL of the port that takes TLS, without a password. The
// plain one is open too: it is the test's own.
func (s *Server) TLSURL() string { return "rediss://" + s.TLSAddress() }

// TLSAddress returns the host, by its name, and the port that takes TLS.
func (s *Server) TLSAddress() string { return net.JoinHostPort("localhost", port(s.Ports, overTLS)) }
