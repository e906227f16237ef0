package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// openDatabase opens DATABASE_URL; it does not connect.
func openDatabase(a *app) (*outbox.Database, error) {
	if a.database.URL == "" {
		return nil, errors.New("DATABASE_URL is not set: set it to mysql://user:password@host:3306/name or sqlite:///file, and run `keyfold setup`")
	}
	return outbox.Open(a.database.URL)
}

// usableDatabase opens DATABASE_URL and reports why it cannot be used now.
func usableDatabase(a *app) (*outbox.Database, error) {
	db, err := openDatabase(a)
	if err != nil {
		return nil, err
	}
	if err := db.Check(a.ctx); err != nil {
		return nil, errors.Join(databaseUnreached(err), db.Close())
	}
	return db, nil
}

// withDatabase calls do with DATABASE_URL opened.
func (a *app) withDatabase(do func(db *outbox.Database) error) error {
	db, err := usableDatabase(a)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

// startedDatabase opens DATABASE_URL for a service, which may start while its
// database is away. What no time cures ends the start.
func startedDatabase(a *app) (*outbox.Database, error) {
	db, err := openDatabase(a)
	if err != nil {
		return nil, err
	}
	if err := db.Check(a.ctx); err != nil {
		if engine.KindOf(err) == engine.Configuration {
			return nil, errors.Join(err, db.Close())
		}
		a.log.Warn("the database is not there yet", slog.Any("error", databaseUnreached(err)))
	}
	return db, nil
}

// toBroker publishes stored rows as the events they are.
type toBroker struct {
	publisher *rabbit.Publisher
	names     rabbit.Names
	// backfill marks rows as seen when they were stored: whether their ids have
	// been dropped from a profile since can be told then. A relay marks only those
	// that may have been published before.
	backfill bool
}

// Publish answers in the outbox's words.
func (b toBroker) Publish(ctx context.Context, rows []outbox.Row) []error {
	messages := make([]rabbit.Message, len(rows))
	for i := range rows {
		messages[i] = b.names.EventMessage(rows[i].Body, &rows[i].Event)
		since := rows[i].TriedAt
		if b.backfill {
			since = rows[i].StoredAt
		}
		if since != 0 {
			messages[i].Headers = map[string]any{rabbit.HeaderFirstSeen: int64(since)}
		}
	}
	return b.publisher.Publish(ctx, messages)
}

// closePublisher gives the broker a moment to end a connection in order.
func closePublisher(ctx context.Context, p *rabbit.Publisher) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return p.Close(ctx)
}
