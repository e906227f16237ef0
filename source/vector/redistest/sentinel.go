package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func startSentinel(t testing.TB, name string, master int) *Server {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "sentinel.conf") // a sentinel writes into it
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\n", name, master)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{dir: dir, port: port, args: []string{
		config, "--sentinel", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
	}}
	if err := s.boot(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}
