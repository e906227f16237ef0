package rabbittest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

var shared struct {
	mu     sync.Mutex
	broker *Broker
	dir    string
	err    error
}

// Shared returns the test binary's one broker, started at the first call. The
// package's TestMain has to call [Main], which stops it. Tests on it use a
// virtual host each and never kill it.
func Shared(t testing.TB) *Broker {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.broker == nil && shared.err == nil {
		if shared.dir, shared.err = os.MkdirTemp("", "keyfold-rabbit-"); shared.err == nil {
			shared.broker, shared.err = launch(shared.dir, patient)
		}
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.broker
}

// Main runs a package's tests, stops the shared broker, looks for leaked
// goroutines and ends the process. It is called from TestMain, with its
// [testing.M] or what wraps it to stop servers of its own.
func Main(m interface{ Run() int }) {
	code := m.Run()
	shared.mu.Lock()
	if shared.broker != nil {
		shared.broker.Stop()
	}
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	shared.mu.Unlock()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "leaked goroutines:", err)
			code = 1
		}
	}
	os.Exit(code)
}
