package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"keyfold/internal/testserver/process"
)

// Pooler is a private PgBouncer in transaction mode: each transaction of a client may
// run on another connection of the server.
type Pooler struct{ process.Server }

// StartPooler runs a PgBouncer before a server until the test's end. It has as many
// connections to each database.
func StartPooler(t testing.TB, s *Server, connections int) *Pooler {
	t.Helper()
	return process.ForTest(t, func(dir string) (*Pooler, error) { return launchPooler(dir, s, connections) })
}

func launchPooler(dir string, s *Server, connections int) (*Pooler, error) {
	path, err := process.Find("pgbouncer", "pgbouncer")
	if err != nil {
		return nil, err
	}
	_, serving, err := account(dir)
	if err != nil {
		return nil, err
	}
	ports, err := process.ClaimPorts()
	if err != nil {
		return nil, err
	}
	p := &Pooler{process.Server{Dir: dir, Ports: ports}}
	settings := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=postgres\n"+
		"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\n"+
		"pool_mode = transaction\ndefault_pool_size = %d\nmax_client_conn = 200\n", s.Ports.Port(0), ports.Port(0), connections)
	if err = os.WriteFile(settings, []byte(text), 0o644); err == nil { //nolint:gosec // another account reads it
		run := slices.Concat(serving, []string{path, settings})
		p.Path, p.Args = run[0], run[1:]
		err = p.Boot()
	}
	if err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// URL returns the address of a database of the server behind.
func (p *Pooler) URL(database string) string {
	return "postgres://postgres@" + p.Address() + "/" + database + "?sslmode=disable"
}
