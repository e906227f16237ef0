package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
)

// Server is one private MariaDB server. Its methods may be called from several
// goroutines.
type Server struct {
	process.Server
	owner     string // the system user it runs as
	admin     *sql.DB
	databases atomic.Int64
}

// Shared returns the test binary's one server, see [process.Shared]. Tests on it use a
// database each and never kill it.
var Shared = process.Shared(Launch)

// Start runs a server of the test's own, with further options, and stops it at the test's end.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	return process.ForTest(t, func(dir string) (*Server, error) { return launch(dir, options) })
}

// Launch runs a server whose files are all in dir. The caller stops it.
func Launch(dir string) (*Server, error) { return launch(dir, nil) }

func launch(dir string, options []string) (*Server, error) {
	const installed = "mariadb-server"
	path, err := process.Find(installed, "mariadbd")
	prepare, noPrepare := process.Find(installed, "mariadb-install-db")
	owner, noOwner := user.Current()
	if err := errors.Join(err, noPrepare, noOwner); err != nil {
		return nil, err
	}
	s := &Server{owner: owner.Username, Server: process.Server{Dir: dir, Path: path}}
	if err := s.prepare(prepare); err != nil {
		return nil, err
	}
	if s.Ports, err = process.ClaimPorts(); err != nil {
		return nil, err
	}
	if err := s.connect(); err != nil {
		s.Ports.Release()
		return nil, err
	}
	s.Env = []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + dir}
	s.Args = []string{
		"--no-defaults", "--user=" + s.owner,
		"--datadir=" + s.in("data"), "--tmpdir=" + s.in("tmp"), "--socket=" + s.in("s"), "--pid-file=" + s.in("pid"),
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.Ports.Port(0)), "--skip-name-resolve",
		"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=64M",
		"--performance-schema=OFF", "--max-connections=300", "--skip-log-bin",
	}
	s.Args = append(s.Args, options...)
	s.Answers = func(ctx context.Context) bool { return s.admin.PingContext(ctx) == nil }
	if err := s.Boot(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// prepare makes the system tables, with a root that needs no password. Its
// temporary files are the server's own: several prepare at once.
func (s *Server) prepare(program string) error {
	if err := os.MkdirAll(s.in("tmp"), 0o700); err != nil {
		return err
	}
	command := exec.Command(program, "--no-defaults", "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--datadir="+s.in("data"), "--tmpdir="+s.in("tmp"), "--user="+s.owner)
	command.Dir = s.Dir
	command.Env = append(os.Environ(), "TMPDIR="+s.in("tmp"))
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w\n%s", err, output)
	}
	return nil
}

func (s *Server) in(name string) string { return filepath.Join(s.Dir, name) }

func (s *Server) connect() error {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = "root", "tcp", s.Address()
	config.Timeout, config.InterpolateParams = time.Second, true
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	s.admin = sql.OpenDB(connector)
	s.admin.SetMaxIdleConns(0) // no connection outlives a kill
	return nil
}

// URL returns the DATABASE_URL of a database for the user root.
func (s *Server) URL(database string) string { return "mysql://root@" + s.Address() + "/" + database }

// Database makes a database that lasts as long as the test and returns its
// name.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	s.Exec(t, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	t.Cleanup(func() {
		if s.Running() {
			_, _ = s.admin.Exec("DROP DATABASE IF EXISTS " + name)
		}
	})
	return name
}

// Exec runs a statement as root.
func (s *Server) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := s.admin.Exec(statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Admin returns a pool of connections as root, to no database.
func (s *Server) Admin() *sql.DB { return s.admin }

// CutConnections has the server end every connection to a database and returns
// how many there were.
func (s *Server) CutConnections(t testing.TB, database string) int {
	t.Helper()
	var ids string
	must.OK(t, s.admin.QueryRow("SELECT COALESCE(GROUP_CONCAT(id SEPARATOR ' '), '') FROM information_schema.processlist WHERE db = ?", database).Scan(&ids))
	for _, id := range strings.Fields(ids) {
		_, _ = s.admin.Exec("KILL CONNECTION " + id) // it may have ended by itself
	}
	return len(strings.Fields(ids))
}

// Stop ends the server. It may be called again.
func (s *Server) Stop() {
	s.Server.Stop()
	_ = s.admin.Close()
}
