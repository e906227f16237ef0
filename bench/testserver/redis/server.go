package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"keyfold/bench/testserver/process"
)

// startTimeout bounds a start, which takes some 50 ms on an idle machine.
const startTimeout = time.Minute

// Server is one private Redis server. Those of its methods that start and end
// it are called from one goroutine at a time.
type Server struct {
	dir    string
	port   int
	args   []string
	server *process.Process
}

// Start runs a server until the test's end. Settings are written as on
// redis-server's command line: "--requirepass", "secret". With those of
// [Authority.Issue] it takes TLS too, at its TLSURL.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Launch(t.TempDir(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Launch runs a server outside of tests, all of its files in dir. The caller
// ends it with Kill.
func Launch(dir string, settings ...string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, port: port}
	s.args = append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
		// What a real server would have on its disk after a kill, it has.
		"--appendonly", "yes", "--appendfsync", "always", "--save", "",
		"--repl-diskless-sync-delay", "0", // a replica's first copy waits 5 s otherwise
	}, settings...)
	if secure(settings) {
		s.args = append(s.args, "--tls-port", strconv.Itoa(s.second()))
	}
	return s, s.boot()
}

// secure reports whether there is a certificate among settings.
func secure(settings []string) bool { return slices.Contains(settings, "--tls-cert-file") }

// boot starts the server and waits until it answers.
func (s *Server) boot() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("redis-server is not installed: `make test` installs it, " +
			"or: apt-get install --no-install-recommends redis-server")
	}
	if s.server, err = process.Start(s.dir, "redis", nil, path, s.args...); err != nil {
		return err
	}
	for limit := time.Now().Add(startTimeout); !s.answers(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-s.server.Ended():
			return fmt.Errorf("redis-server ended while starting:\n%s", s.output())
		default:
		}
		if time.Now().After(limit) {
			s.Kill()
			return fmt.Errorf("redis-server did not answer within %v:\n%s", startTimeout, s.output())
		}
	}
	return nil
}

// answers reports whether the server replies, if only that it wants a password.
func (s *Server) answers() bool {
	reply, err := s.send("PING")
	return err == nil && reply != "" && !isLoading(reply)
}

func isLoading(reply string) bool { return len(reply) > 8 && reply[:8] == "-LOADING" }

func (s *Server) output() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "redis.out"))
	return string(text[max(0, len(text)-4000):])
}

// Address returns the host and port.
func (s *Server) Address() string { return address(s.port) }

// URL returns the server's URL, without a password.
func (s *Server) URL() string { return "redis://" + s.Address() }

// TLSURL returns the URL of the port that takes TLS, without a password. The
// plain one is open too: it is the test's own.
func (s *Server) TLSURL() string { return "rediss://" + s.TLSAddress() }

// TLSAddress returns the host, by its name, and the port that takes TLS.
func (s *Server) TLSAddress() string { return net.JoinHostPort("localhost", strconv.Itoa(s.second())) }

// second is the other port that is the server's: its cluster bus, or TLS.
func (s *Server) second() int { return s.port + secondPort }

// Kill ends the server with SIGKILL. It may be called again.
func (s *Server) Kill() { s.server.Kill() }

// Restart boots the server on the same port and data, having killed it where it
// still runs.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.boot(); err != nil {
		t.Fatal(err)
	}
}

// Freeze stops the server without closing anything: connections are accepted,
// and nothing answers.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGCONT)
}

func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.server.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// secondPort is how far above a server's port its second one is: where a
// cluster's node has its bus.
const secondPort = 10000

// freePort returns a port of 127.0.0.1 nobody listens on, below the range the
// system takes outgoing ports from: a server that is down for a moment finds it
// free again. The server's second port is free as well.
func freePort() (int, error) {
	const first, count = 10000, 9000
	for range 1000 {
		port := first + rand.IntN(count)
		if free(port) && free(port+secondPort) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d", first, first+count)
}

func free(port int) bool {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
