package main

import (
	"context"
	"errors"
	"os"

	"keyfold/engine/profile"
	"keyfold/internal/report"
	"keyfold/proof/stack"
	"keyfold/source/rabbit"
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

// onStack measures on a stack, which it starts and ends. The arguments are those of
// a private store.
func onStack(ctx context.Context, r *report.Report, dsn, uri string, measure func(context.Context, *stack.Stack, *report.Report) error, args ...string) error {
	return onServers(ctx, r, func(s *stack.Stack) { s.DSN, s.Profiles.URI, s.StoreArgs = dsn, uri, args }, measure)
}

// onServers measures on a stack, prepared before it starts.
func onServers(ctx context.Context, r *report.Report, prepare func(*stack.Stack), measure func(context.Context, *stack.Stack, *report.Report) error) (err error) {
	dir, err := os.MkdirTemp("", "keyfold-bench-")
	if err != nil {
		return err
	}
	s := stack.New(dir)
	s.Env = []string{"LOG_LEVEL=warn"}
	prepare(s)
	defer func() { err = errors.Join(err, s.Close(), os.RemoveAll(dir)) }()
	if err := s.Start(ctx); err != nil {
		return err
	}
	if err := versions(ctx, r, s); err != nil {
		return err
	}
	defer r.Watch(ctx, s.Processes)()
	return measure(ctx, s, r)
}

// versions notes those of the servers.
func versions(ctx context.Context, r *report.Report, s *stack.Stack) error {
	broker, err := rabbit.Version(ctx, s.DSN)
	if err != nil {
		return err
	}
	r.Version("RabbitMQ", broker)
	if s.Decisions {
		return nil
	}
	store, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	version, err := store.Version(ctx)
	r.Version("store", version)
	return err
}

// startWorkers sets the servers up, with products, and starts workers.
func startWorkers(ctx context.Context, s *stack.Stack, products []profile.Product, n int, env []string) error {
	if err := s.SetUp(ctx, products); err != nil {
		return err
	}
	for range n {
		if _, err := s.Launch(env, "work"); err != nil {
			return err
		}
	}
	return nil
}

// deadLetters returns how many there are.
func deadLetters(ctx context.Context, s *stack.Stack) (int, error) {
	return rabbit.Depth(ctx, s.DSN, rabbit.DefaultNames().DeadLetters)
}
