package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	mongotest "keyfold/bench/testserver/mongodb"
	"keyfold/bench/testserver/process"
	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

// brokerFlag and storeFlag say which server to measure against; without them
// private ones are started and ended.
type (
	brokerFlag struct {
		RabbitMQ string `name:"rabbitmq-dsn" env:"BENCH_RABBITMQ_DSN" placeholder:"DSN" help:"Broker to use; default: a private one."`
	}
	storeFlag struct {
		MongoDB string `name:"mongodb-uri" env:"BENCH_MONGODB_URI" placeholder:"URI" help:"Store to use; default: the test server, a process of its own, in memory."`
	}
)

// stack is a broker, a store and the program keyfold: what every scenario runs on.
type stack struct {
	dsn, mongo string
	broker     *rabbittest.Broker // nil for one that was there before
	store      *mongotest.Process // nil for one that was there before
	publisher  *rabbit.Publisher

	dir, program string
	model        string          // of the profiles' vectors
	env          []string        // of every program, beside the addresses
	used         []time.Duration // processor time of the programs that have ended
	closers      []func() error
}

// start builds keyfold and starts a broker and a store where there is no address
// of one. The arguments are those of the store.
func start(ctx context.Context, dsn, mongo string, args ...string) (s *stack, err error) {
	dir, err := os.MkdirTemp("", "keyfold-bench-")
	if err != nil {
		return nil, err
	}
	s = &stack{dsn: dsn, mongo: mongo, dir: dir, model: vector.HashModel}
	s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.program, err = process.Build(ctx, dir, "keyfold/cmd/keyfold"); err != nil {
		return nil, err
	}
	if dsn == "" {
		if s.broker, err = rabbittest.Launch(dir); err != nil {
			return nil, err
		}
		s.atEnd(s.broker.Stop)
		s.dsn = s.broker.DSN("/")
	}
	if mongo == "" {
		program, err := process.Build(ctx, dir, "keyfold/bench/testserver/mongodb/mongotestd")
		if err != nil {
			return nil, err
		}
		if s.store, err = mongotest.Launch(program, filepath.Join(dir, "store"), args...); err != nil {
			return nil, err
		}
		s.atEnd(s.store.Stop)
		s.mongo = s.store.URI()
	}
	s.publisher = rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("bench"), "publisher", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	s.closers = append(s.closers, func() error { return s.publisher.Close(context.WithoutCancel(ctx)) })
	return s, nil
}

// atEnd has close call a function.
func (s *stack) atEnd(f func()) {
	s.closers = append(s.closers, func() error { f(); return nil })
}

// close ends everything, last started first.
func (s *stack) close() error {
	var errs []error
	for _, end := range slices.Backward(s.closers) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// environment points keyfold at the servers.
func (s *stack) environment(more ...string) []string {
	return slices.Concat(os.Environ(),
		[]string{"RABBITMQ_DSN=" + s.dsn, "MONGODB_URI=" + s.mongo, "EMBEDDER=hash", "ADMIN_ADDR=127.0.0.1:0", "LOG_LEVEL=warn"},
		s.env, more)
}

// setUp sets the servers up and imports the sample shop.
func (s *stack) setUp(ctx context.Context) error {
	var shop bytes.Buffer
	encode := json.NewEncoder(&shop)
	for _, p := range sample.Products() {
		_ = encode.Encode(map[string]any{"product_id": p.ID, "product_name": p.Name, "category": p.Category}) // into memory: it cannot fail
	}
	if err := s.keyfold(ctx, nil, "setup"); err != nil {
		return err
	}
	return s.keyfold(ctx, &shop, "products", "import", "-", "--embed")
}

// keyfold runs a command to its end.
func (s *stack) keyfold(ctx context.Context, stdin io.Reader, args ...string) error {
	c := exec.CommandContext(ctx, s.program, args...)
	c.Env, c.Stdin = s.environment(), stdin
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("keyfold %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// launch runs a command until stop or close ends it in order. stop may be called
// again.
func (s *stack) launch(env []string, args ...string) (stop func() error, err error) {
	command := exec.Command(s.program, args...)
	command.Env, command.Stderr = s.environment(env...), os.Stderr
	p, err := process.Run(command)
	if err != nil {
		return nil, err
	}
	stop = sync.OnceValue(func() error {
		err := p.Signal(syscall.SIGTERM)
		<-p.Ended()
		s.used = append(s.used, command.ProcessState.UserTime()+command.ProcessState.SystemTime())
		return errors.Join(err, p.Err())
	})
	s.closers = append(s.closers, stop)
	return stop, nil
}

// workers sets the servers up and starts so many workers.
func (s *stack) workers(ctx context.Context, n int, env []string) error {
	if err := s.setUp(ctx); err != nil {
		return err
	}
	for range n {
		if _, err := s.launch(env, "work"); err != nil {
			return err
		}
	}
	return nil
}

// open opens the store as a worker does.
func (s *stack) open(ctx context.Context) (*mongodb.Store, error) {
	c := mongodb.DefaultConfig()
	c.URI, c.Model = s.mongo, s.model
	return mongodb.Open(ctx, c)
}

// address returns one that is kept free for a program of the stack.
func (s *stack) address() (string, error) {
	ports, err := process.ClaimPorts()
	if err != nil {
		return "", err
	}
	s.atEnd(ports.Release)
	return ports.Address(0), nil
}

// depth returns how many messages of a queue are ready.
func (s *stack) depth(ctx context.Context, queue string) (int, error) {
	return rabbit.Depth(ctx, s.dsn, queue)
}
