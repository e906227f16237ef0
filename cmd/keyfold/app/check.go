package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
)

// The checks below are for the commands' own: all commands are checkers. They ask
// no server.

// CheckBroker judges the address of the broker.
func (a *App) CheckBroker() error {
	// The rest of a consumer's settings is judged with all others.
	return rabbit.Config{DSN: a.Servers.RabbitMQ, Prefetch: 1, RetryDelay: time.Second}.Validate()
}

// CheckStore judges the address and the name of MongoDB's database.
func (a *App) CheckStore() error {
	c := mongodb.DefaultConfig()
	c.Database = a.Servers.Database
	c.URI = a.Servers.MongoDB
	return c.Validate()
}

// CheckDatabase judges DATABASE_URL.
func (a *App) CheckDatabase() error {
	db, err := a.OpenDatabase()
	if err != nil {
		return err
	}
	return db.Close()
}

// unreached says what to look at where a server does not answer. Errors of another
// kind name their cure already.
func unreached(server, setting string, err error) error {
	if err == nil || engine.KindOf(err) != engine.Transient || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s does not answer: is it running, is %s right? (%w)", server, setting, err)
}

// BrokerUnreached says what to look at where the broker does not answer.
func BrokerUnreached(err error) error { return unreached("RabbitMQ", "RABBITMQ_DSN", err) }

// DatabaseUnreached says what to look at where the database does not answer. It
// leaves alone what the database answered.
func DatabaseUnreached(err error) error {
	if !errors.Is(err, engine.ErrAway) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return unreached("the database", "DATABASE_URL", err)
}
