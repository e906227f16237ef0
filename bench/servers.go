package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	mongotest "keyfold/bench/testserver/mongodb"
	rabbittest "keyfold/bench/testserver/rabbitmq"
)

// serverFlags say which servers to measure against; without them private ones
// are started and ended.
type serverFlags struct {
	RabbitMQ string `name:"rabbitmq-dsn" env:"BENCH_RABBITMQ_DSN" placeholder:"DSN" help:"Broker to use; default: a private one."`
	MongoDB  string `name:"mongodb-uri" env:"BENCH_MONGODB_URI" placeholder:"URI" help:"Store to use; default: the test server, a process of its own, in memory."`
}

// servers are a broker and a store, and whatever has to be ended in the end.
type servers struct {
	dsn, mongo string
	dir        string
	env        []string // of every program, beside the addresses
	closers    []func() error
}

// start starts what is missing.
func (f serverFlags) start(ctx context.Context) (s *servers, err error) {
	dir, err := os.MkdirTemp("", "keyfold-bench-")
	if err != nil {
		return nil, err
	}
	s = &servers{dsn: f.RabbitMQ, mongo: f.MongoDB, dir: dir}
	s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
	if s.dsn == "" {
		broker, err := rabbittest.Launch(dir)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.closers = append(s.closers, func() error { broker.Stop(); return nil })
		s.dsn = broker.DSN("/")
	}
	if s.mongo == "" {
		if _, err := s.startStore(ctx); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// close ends everything, last started first.
func (s *servers) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

// build builds one of the module's programs.
func (s *servers) build(ctx context.Context, pkg string) (string, error) {
	path := filepath.Join(s.dir, filepath.Base(pkg))
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// startStore runs a mongotestd with these arguments.
func (s *servers) startStore(ctx context.Context, args ...string) (*mongotest.Process, error) {
	path, err := s.build(ctx, "keyfold/bench/testserver/mongodb/mongotestd")
	if err != nil {
		return nil, err
	}
	store, err := mongotest.Launch(path, filepath.Join(s.dir, "store"), args...)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error { store.Stop(); return nil })
	s.mongo = store.URI()
	return store, nil
}

// environment points keyfold at the servers.
func (s *servers) environment(more ...string) []string {
	return slices.Concat(os.Environ(),
		[]string{"RABBITMQ_DSN=" + s.dsn, "MONGODB_URI=" + s.mongo, "EMBEDDER=hash", "ADMIN_ADDR=127.0.0.1:0", "LOG_LEVEL=warn"},
		s.env, more)
}

// keyfold runs a command to its end.
func (s *servers) keyfold(ctx context.Context, program string, stdin io.Reader, args ...string) error {
	c := exec.CommandContext(ctx, program, args...)
	c.Env, c.Stdin = s.environment(), stdin
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("keyfold %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
