package process

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// Shared is the one server of a test binary, all of its files in a folder of its
// own. The package's TestMain has to call [Main], which stops it.
type Shared[T interface{ Stop() }] struct {
	Launch func(dir string) (T, error)

	once   sync.Once
	server T
	err    error
}

// Get returns the server. The first call starts it.
func (s *Shared[T]) Get(t testing.TB) T {
	t.Helper()
	s.once.Do(func() {
		var dir string
		if dir, s.err = TempDir(); s.err != nil {
			return
		}
		if s.server, s.err = s.Launch(dir); s.err == nil {
			atEnd(s.server.Stop)
		}
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// TempDir returns a new folder that [Main] removes.
func TempDir() (string, error) {
	dir, err := os.MkdirTemp("", "keyfold-test-")
	if err == nil {
		atEnd(func() { os.RemoveAll(dir) })
	}
	return dir, err
}

var ends struct {
	mu  sync.Mutex
	all []func()
}

// atEnd has [Main] call a function after the tests, the last one given first.
func atEnd(f func()) {
	ends.mu.Lock()
	defer ends.mu.Unlock()
	ends.all = append(ends.all, f)
}

// Main runs a package's tests, stops the shared servers, looks for leaked
// goroutines and ends the process. It is called from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	ends.mu.Lock()
	for _, f := range slices.Backward(ends.all) {
		f()
	}
	ends.mu.Unlock()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "leaked goroutines:", err)
			code = 1
		}
	}
	os.Exit(code)
}
