package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"keyfold/internal/testserver/process"
)

// Server is one private PostgreSQL server. Its methods may be called from several
// goroutines.
type Server struct {
	process.Server
	strategy string // of a copy of a database, in SQL

	mu        sync.Mutex
	databases int
	used      []string // databases of tests that have ended
}

// Shared returns the test binary's one server, see [process.Shared]. Tests on it use a
// database each and never kill it.
var Shared = process.Shared(func(dir string) (*Server, error) { return Launch(dir) })

// Start runs a server of the test's own and stops it at the test's end. Settings are
// as in postgresql.conf: "fsync=on".
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return process.ForTest(t, func(dir string) (*Server, error) { return Launch(dir, settings...) })
}

// Launch runs a server whose files are all in dir. The caller stops it.
func Launch(dir string, settings ...string) (*Server, error) {
	folders := installed()
	const debian = "postgresql"
	program, err := process.Find(debian, "postgres", folders...)
	initdb, noInit := process.Find(debian, "initdb", folders...)
	passing, serving, noAccount := account(dir)
	if err := errors.Join(err, noInit, noAccount); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	fill := slices.Concat(passing, []string{
		initdb, "--pgdata=" + data, "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync",
	})
	command := exec.Command(fill[0], fill[1:]...)
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, output)
	}
	ports, err := process.ClaimPorts()
	if err != nil {
		return nil, err
	}
	run := slices.Concat(serving, []string{program, "-D", data})
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(ports.Port(0)), "unix_socket_directories=",
		"fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB", "dynamic_shared_memory_type=mmap",
	}, settings...) {
		run = append(run, "-c", setting)
	}
	s := &Server{Server: process.Server{Dir: dir, Path: run[0], Args: run[1:], Ports: ports}}
	if version(filepath.Dir(program)) >= 15 { // earlier ones know no other
		s.strategy = " STRATEGY FILE_COPY"
	}
	s.Env = []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + dir}
	s.Answers = func(ctx context.Context) bool { return s.exec(ctx, "postgres", "SELECT 1") == nil }
	if err := s.Boot(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// installed returns the folders that may hold the server's programs, those of the
// newest version first. Debian keeps them out of PATH.
func installed() []string {
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // of a pattern that is well-formed
	slices.SortFunc(folders, func(a, b string) int { return version(b) - version(a) })
	return append(folders, filepath.SplitList(os.Getenv("PATH"))...)
}

func version(folder string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
	return n
}

// URL returns the address of a database for the user postgres, who needs no password.
func (s *Server) URL(database string) string {
	return "postgres://postgres@" + s.Address() + "/" + database + "?sslmode=disable"
}

// Kill ends the server with SIGKILL, its backends included: each of these is in a
// process group of its own, and a new server waits for them in vain.
func (s *Server) Kill() {
	if !s.Running() {
		return
	}
	pid := s.PID()
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // Linux only; elsewhere they end by themselves
	s.Server.Kill()
	for _, child := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
			for range 100 {
				if gone(n) {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

// gone reports whether a process has ended, even if its new parent never asks how.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(stat), ") Z ")
}

// Stop kills the server and gives its ports up. It may be called again.
func (s *Server) Stop() {
	s.Kill()
	s.Server.Stop()
}

// Restart kills the server, where it still runs, and boots it.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	s.Server.Restart(t)
}
