package sqltest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

var shared struct {
	mu     sync.Mutex
	server *Server
	dir    string
	err    error
}

// Shared returns the test binary's one server, started at the first call. The
// package's TestMain has to call [Main] or [StopShared]. Tests on it use a
// database each and never kill it.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		if shared.dir, shared.err = os.MkdirTemp("", "keyfold-sql-"); shared.err == nil {
			shared.server, shared.err = Launch(shared.dir)
		}
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// StopShared stops the shared server, if there is one, and removes its files.
func StopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		shared.server.Stop()
	}
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
}

// Main runs a package's tests, stops the shared server, looks for leaked
// goroutines and ends the process. It is called from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	StopShared()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "leaked goroutines:", err)
			code = 1
		}
	}
	os.Exit(code)
}
