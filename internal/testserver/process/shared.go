package process

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"keyfold/internal/testserver/must"
)

// Stopper is a running server.
type Stopper interface{ Stop() }

// Shared returns a function that returns the one server of a test binary, all of its
// files in a folder of its own. The first call starts it. The package's TestMain has
// to call [Main], which stops it.
func Shared[T Stopper](launch func(dir string) (T, error)) func(testing.TB) T {
	start := sync.OnceValues(func() (server T, err error) {
		dir, err := TempDir()
		if err != nil {
			return server, err
		}
		if server, err = launch(dir); err == nil {
			atEnd(server.Stop)
		}
		return server, err
	})
	return func(t testing.TB) T {
		t.Helper()
		server, err := start()
		must.OK(t, err)
		return server
	}
}

// ForTest launches a server of the test's own and stops it at the test's end.
func ForTest[T Stopper](t testing.TB, launch func(dir string) (T, error)) T {
	t.Helper()
	server, err := launch(t.TempDir())
	must.OK(t, err)
	t.Cleanup(server.Stop)
	return server
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
