package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
)

// checker is a command that judges what it was called with before it connects to
// anything: its flags, and the settings that it needs. What it finds can never
// work, whatever the servers do, and is a usage error; every fault is told at
// once. All commands are checkers.
type checker interface{ check(a *app) error }

func (a *app) checkBroker() error {
	// The rest of a consumer's settings is judged with all others.
	return rabbit.Config{DSN: a.servers.RabbitMQ, Prefetch: 1, RetryDelay: time.Second}.Validate()
}

func (a *app) checkStore() error {
	c := mongodb.DefaultConfig()
	c.Database = a.servers.Database
	c.URI = a.servers.MongoDB
	return c.Validate()
}

func (a *app) checkDatabase() error {
	db, err := openDatabase(a)
	if err != nil {
		return err
	}
	return db.Close()
}

// checkVectors is for commands that make vectors.
func (a *app) checkVectors() error { return a.vectors.Usable() }

// unreached says what to look at where a server does not answer. Errors of another
// kind name their cure already.
func unreached(server, setting string, err error) error {
	if err == nil || engine.KindOf(err) != engine.Transient || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s does not answer: is it running, is %s right? (%w)", server, setting, err)
}

func brokerUnreached(err error) error { return unreached("RabbitMQ", "RABBITMQ_DSN", err) }

func storeUnreached(err error) error { return unreached("MongoDB", "MONGODB_URI", err) }

// databaseUnreached leaves alone what the database answered.
func databaseUnreached(err error) error {
	if !errors.Is(err, engine.ErrAway) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return unreached("the database", "DATABASE_URL", err)
}
