package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/engine/profile"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit/consume"
)

// The checks below are for the commands' own: all commands are checkers. They ask
// no server.

// CheckBroker judges the address of the broker.
func (a *App) CheckBroker() error {
	// The rest of a consumer's settings is judged with all others.
	return consume.Config{DSN: a.Servers.RabbitMQ, Prefetch: 1, RetryDelay: time.Second}.Validate()
}

// CheckStore judges the address and the name of MongoDB's database.
func (a *App) CheckStore() error {
	c := mongodb.DefaultConfig()
	c.Database = a.Servers.Database
	c.URI = a.Servers.MongoDB
	c.Format = mongodb.Format(a.Servers.Format)
	return c.Validate()
}

// CheckDimensions judges how many components there would be with learned ones.
func (a *App) CheckDimensions(learned int) error {
	if all := a.Config.TextDimensions() + learned; all > profile.MaxDimensions {
		return fmt.Errorf("%d learned components make %d of each vector, at most %d can be used", learned, all, profile.MaxDimensions)
	}
	return nil
}

// CheckDatabase judges DATABASE_URL.
func (a *App) CheckDatabase() error {
	db, err := a.OpenDatabase()
	if err != nil {
		return err
	}
	return db.Close()
}

// BrokerUnreached gives an error of the broker a cure, where it has none.
func BrokerUnreached(err error) error { return causes.Ensure(causes.RabbitMQ, err) }

// DatabaseUnreached gives the error of a database that did not answer a cure, where it has
// none.
func DatabaseUnreached(err error) error { return unanswered(causes.Database, err) }

func unanswered(server causes.Server, err error) error {
	if errors.Is(err, engine.ErrAway) || errors.Is(err, context.DeadlineExceeded) {
		return causes.Ensure(server, err)
	}
	return err
}
