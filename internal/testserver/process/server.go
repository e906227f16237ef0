package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// startTimeout bounds a start, recovery from a kill included; on a busy machine
// one takes minutes.
const startTimeout = 5 * time.Minute

// Server is a program that can be killed and started again where it was: with
// the same arguments, ports and data. The fields are set before Boot. Methods may
// be called from several goroutines.
type Server struct {
	Dir  string // the folder it runs in; its output is there, in server.out
	Path string
	Args []string
	Env  []string // nil: this process's own

	Ports   *Ports
	Answers func(context.Context) bool // nil: its first port takes connections
	Logs    string                     // a file it writes to beside its output; "" for none

	Elsewhere bool // another process runs it: here it is neither killed nor booted

	mu      sync.Mutex
	process *Process
}

// Boot starts the server and waits until it answers.
func (s *Server) Boot() (err error) {
	if s.Elsewhere {
		return errors.New("another process runs the server")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process, err = Start(s.Dir, "server", s.Env, s.Path, s.Args...); err != nil {
		return err
	}
	answers := s.Answers
	if answers == nil {
		answers = s.listens
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for !answers(ctx) {
		select {
		case <-ctx.Done():
			s.process.Kill()
			return fmt.Errorf("%s did not answer within %v:\n%s", s.Path, startTimeout, s.output())
		case <-s.process.Ended():
			return fmt.Errorf("%s ended while starting:\n%s", s.Path, s.output())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (s *Server) listens(ctx context.Context) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address())
	return err == nil && conn.Close() == nil
}

// output returns the end of what the server printed and logged.
func (s *Server) output() (all string) {
	for _, path := range []string{filepath.Join(s.Dir, "server.out"), s.Logs} {
		text, _ := os.ReadFile(path)
		all += string(text[max(0, len(text)-4000):])
	}
	return all
}

// Address returns the host and port the server listens on.
func (s *Server) Address() string { return s.Ports.Address(0) }

// PID returns the id of the server's process.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.PID()
}

// Running reports whether the server's process has not ended.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Elsewhere || s.process.Running()
}

// Kill ends the server with SIGKILL, as a crash would. It may be called again.
func (s *Server) Kill() {
	if s.Elsewhere {
		panic("a test kills the server of another process, which other tests use")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Kill()
	}
}

// Stop kills the server and gives its ports up, if it is this process's. It may be called again.
func (s *Server) Stop() {
	if s.Elsewhere {
		return
	}
	s.Kill()
	s.Ports.Release()
}

// Restart kills the server, where it still runs, and boots it.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	must.OK(t, s.Boot())
}

// Signal sends the server's process a signal.
func (s *Server) Signal(signal os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Signal(signal)
}

// Freeze stops the server without closing anything: connections are accepted,
// and nothing answers.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	must.OK(t, s.Signal(syscall.SIGSTOP))
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw(t testing.TB) {
	t.Helper()
	must.OK(t, s.Signal(syscall.SIGCONT))
}
