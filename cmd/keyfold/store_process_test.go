package main

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// storeProcess is a mongotestd that can be killed.
type storeProcess struct {
	uri, addr string
	kill      func()
}

var mongotestd = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "build", "-o", mongotestdPath, "keyfold/bench/testserver/mongodb/mongotestd").CombinedOutput()
	if err != nil {
		return string(out), err
	}
	return mongotestdPath, nil
})

// mongotestdPath is this process's own: the tests of another checkout build
// another one. TestMain removes it.
var mongotestdPath = filepath.Join(os.TempDir(), fmt.Sprintf("keyfold-mongotestd-%d", os.Getpid()))

// startStore runs mongotestd on a journal; the test's end kills it.
func startStore(t *testing.T, addr, data string) *storeProcess {
	t.Helper()
	path, err := mongotestd()
	if err != nil {
		t.Fatal(path, err)
	}
	program := exec.Command(path, "--addr", addr, "--data", data)
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("mongotestd did not start: ", err)
	}
	uri := strings.TrimSpace(line)
	parsed, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	p := &storeProcess{uri: uri, addr: parsed.Host}
	p.kill = sync.OnceFunc(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	t.Cleanup(p.kill)
	return p
}
