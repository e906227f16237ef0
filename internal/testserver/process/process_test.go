package process

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"keyfold/internal/testserver/must"
)

func TestMain(m *testing.M) { Main(m) }

func TestProcessEndsByASignal(t *testing.T) {
	p, err := Start(t.TempDir(), "sleep", nil, "/bin/sleep", "1000")
	must.OK(t, err)
	if err := p.Signal(syscall.SIGSTOP); err != nil || !p.Running() {
		t.Fatalf("running: %v, %v", p.Running(), err)
	}
	p.Kill()
	if p.Running() || p.Err() == nil {
		t.Errorf("running: %v, ended with %v", p.Running(), p.Err())
	}
}

// A server's own child, which writes its files, ends with it.
func TestProcessEndsWithItsChildren(t *testing.T) {
	r, w, err := os.Pipe()
	must.OK(t, err)
	defer r.Close()
	command := exec.Command("/bin/sh", "-c", "sleep 1000 & echo; wait")
	command.Stdout = w
	p, err := Run(command)
	w.Close()
	must.OK(t, err)
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if _, err := io.Copy(io.Discard, r); err != nil { // ends when both have ended
		t.Error(err)
	}
}

func TestProgramThatIsMissingIsNamedWithItsPackage(t *testing.T) {
	if _, err := Find("some-package", "no-such-program"); err == nil || !strings.Contains(err.Error(), "some-package") {
		t.Error(err)
	}
}

func TestPortsAreKeptUntilTheyAreReleased(t *testing.T) {
	p, err := ClaimPorts()
	must.OK(t, err)
	if l, err := net.Listen("tcp", p.Address(-1)); err == nil {
		l.Close()
		t.Error("another test binary may claim them too")
	}
	p.Release()
	p.Release()
	l, err := net.Listen("tcp", p.Address(-1))
	must.OK(t, err)
	l.Close()
}

// A server that ends while it starts says why at once.
func TestServerThatEndsWhileStartingShowsItsOutput(t *testing.T) {
	ports, err := ClaimPorts()
	must.OK(t, err)
	log := filepath.Join(t.TempDir(), "log")
	must.OK(t, os.WriteFile(log, []byte("and logged"), 0o600))
	s := Server{Dir: t.TempDir(), Path: "/bin/sh", Args: []string{"-c", "echo printed; exit 1"}, Ports: ports, Logs: log}
	defer s.Stop()
	if err := s.Boot(); err == nil || !strings.Contains(err.Error(), "printed") || !strings.Contains(err.Error(), "and logged") {
		t.Errorf("it says %v", err)
	}
}
