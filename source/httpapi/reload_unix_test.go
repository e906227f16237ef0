//go:build unix

package httpapi

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// A token file that is a FIFO is refused at the start, and one that becomes a FIFO is at
// fault: waiting for its writer would stop every request and the probes.
//
// Promise(security/replaced-files)
func TestTokenFileThatIsAFIFO(t *testing.T) {
	const token = "first-token-00001"
	c := onLoopback()
	c.TokenFile = filepath.Join(t.TempDir(), "tokens")
	inTime := func(what string, do func()) {
		t.Helper()
		done := make(chan struct{})
		go func() { defer close(done); do() }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("%s waits for the FIFO", what)
		}
	}
	start := func() (s *Server, err error) {
		inTime("the start", func() { s, err = NewServer(c, NewHandler(newMemory(), slog.New(slog.DiscardHandler))) })
		return s, err
	}
	fifo := func() {
		must.OK(t, syscall.Mkfifo(c.TokenFile, 0o600))
	}
	fifo()
	if _, err := start(); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("the start: %v", err)
	}
	must.OK(t, os.Remove(c.TokenFile))
	write(t, c.TokenFile, token)
	s, err := start()
	must.OK(t, err)
	must.OK(t, os.Remove(c.TokenFile))
	fifo()
	inTime("a request", func() {
		if got := status(t, s, from("192.0.2.1:9", token)); got != http.StatusServiceUnavailable {
			t.Errorf("a request meets %d, want 503", got)
		}
	})
	inTime("the probe", func() {
		if err := s.TokenFault(); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("the fault is %v", err)
		}
	})
}
