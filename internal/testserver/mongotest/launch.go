package mongotest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
)

// Process is a mongotestd: a server that can be killed, and booted again where it
// was, with what its journal has.
type Process struct{ process.Server }

// Launch runs a built mongotestd in dir with these arguments beside its address.
// The caller stops it.
func Launch(program, dir string, args ...string) (*Process, error) {
	ports, err := process.ClaimPorts()
	if err != nil {
		return nil, err
	}
	p := &Process{process.Server{Dir: dir, Path: program, Args: append(args, "--addr", ports.Address(0)), Ports: ports}}
	if err := p.Boot(); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// URI returns the connection string.
func (p *Process) URI() string { return uri(p.Address()) }

// StartProcess runs a mongotestd on a journal and stops it at the test's end. The
// package's TestMain has to call [process.Main].
func StartProcess(t testing.TB) *Process {
	t.Helper()
	program, err := built()
	must.OK(t, err)
	dir := t.TempDir()
	p, err := Launch(program, dir, "--data", filepath.Join(dir, "journal"))
	must.OK(t, err)
	t.Cleanup(p.Stop)
	return p
}

// built is the path of a mongotestd that is built once per test binary.
var built = sync.OnceValues(func() (string, error) {
	dir, err := process.TempDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "mongotestd")
	if out, err := exec.Command("go", "build", "-o", path, "keyfold/internal/testserver/mongotest/mongotestd").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build mongotestd: %w\n%s", err, out)
	}
	return path, nil
})
