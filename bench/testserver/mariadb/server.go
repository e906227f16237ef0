package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"keyfold/bench/testserver/process"
)

// startTimeout bounds a start, recovery from a kill included.
const startTimeout = time.Minute

// Server is one private MariaDB server. Its methods may be called from several
// goroutines, except those that start and stop it.
type Server struct {
	install installation
	dir     string
	owner   string // the system user it runs as
	port    int

	mu        sync.Mutex
	process   *process.Process
	admin     *sql.DB
	databases atomic.Int64
}

// Start runs a server of the test's own and stops it at the test's end.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := Launch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Launch runs a server whose files are all in dir. The caller stops it.
func Launch(dir string) (*Server, error) {
	install, err := locate()
	if err != nil {
		return nil, err
	}
	owner, err := user.Current()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{install: install, dir: dir, owner: owner.Username, port: port}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	if err := s.connect(); err != nil {
		return nil, err
	}
	if err := s.Boot(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// prepare makes the system tables, with a root that needs no password. Its
// temporary files are the server's own: several prepare at once.
func (s *Server) prepare() error {
	if err := os.Mkdir(s.in("tmp"), 0o700); err != nil {
		return err
	}
	command := exec.Command(s.install.prepare, "--no-defaults", "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--datadir="+s.in("data"), "--tmpdir="+s.in("tmp"), "--user="+s.owner)
	command.Dir = s.dir
	command.Env = append(os.Environ(), "TMPDIR="+s.in("tmp"))
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w\n%s", err, output)
	}
	return nil
}

func (s *Server) in(name string) string { return filepath.Join(s.dir, name) }

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

// Boot starts a server that was killed on the same port and data.
func (s *Server) Boot() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	process, err := process.Start(s.dir, "server", []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + s.dir}, s.install.server, "--no-defaults", "--user="+s.owner,
		"--datadir="+s.in("data"), "--tmpdir="+s.in("tmp"), "--socket="+s.in("s"), "--pid-file="+s.in("pid"),
		"--bind-address=127.0.0.1", "--port="+strconv.Itoa(s.port), "--skip-name-resolve",
		"--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=64M",
		"--performance-schema=OFF", "--max-connections=300", "--skip-log-bin")
	if err != nil {
		return err
	}
	s.process = process
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for s.admin.PingContext(ctx) != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server did not answer within %v:\n%s", startTimeout, s.output())
		case <-process.Ended():
			return fmt.Errorf("the server ended while starting:\n%s", s.output())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// output returns the end of what the server printed.
func (s *Server) output() string {
	text, _ := os.ReadFile(s.in("server.out"))
	return string(text[max(0, len(text)-4000):])
}

// Address returns the host and port the server listens on.
func (s *Server) Address() string { return address(s.port) }

// URL returns the DATABASE_URL of a database for the user root.
func (s *Server) URL(database string) string { return "mysql://root@" + s.Address() + "/" + database }

// Database makes a database that lasts as long as the test and returns its
// name.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	s.Exec(t, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	t.Cleanup(func() {
		if s.running() {
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
	rows, err := s.admin.Query("SELECT id FROM information_schema.processlist WHERE db = ?", database)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		_, _ = s.admin.Exec("KILL CONNECTION " + strconv.FormatInt(id, 10)) // it may have ended by itself
	}
	return len(ids)
}

// Kill ends the server with SIGKILL, as a crash would.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Kill()
}

// Restart boots the server on the same port and data, having killed it where it
// still runs.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.Boot(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Running()
}

// Stop ends the server. It may be called again.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Kill()
	}
	_ = s.admin.Close()
}
