// Package reach asks the servers that keyfold needs whether it can use them.
package reach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine/causes"
	"keyfold/internal/cli"
	"keyfold/internal/settings"
	"keyfold/service/profile/embedding"
	"keyfold/service/status"
	"keyfold/sink/ledger/postgres"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
	"keyfold/source/stream/reader"
	"keyfold/source/vector/rediscache"
)

// Patience is how long each server may take: longer than MongoDB is waited for, so that
// the error says why there was none.
const Patience = 6 * time.Second

// Names of servers that only this package asks.
const (
	streams = "streams"
	api     = "embedding API"
)

// AskAll asks all servers at once, also the embedding API, for the vector of one word.
func AskAll(a *app.App) []status.Server { return ask(a, !a.Vectors.Offline) }

// AskOwn asks all servers at once but the embedding API, which charges for it.
func AskOwn(a *app.App) []status.Server {
	answers := ask(a, false)
	return slices.DeleteFunc(answers, func(s status.Server) bool { return s.Server == api })
}

func ask(a *app.App, withAPI bool) []status.Server {
	answers := []status.Server{
		{Server: status.RabbitMQ, Address: a.Servers.RabbitMQ, Used: true},
		{Server: status.MongoDB, Address: a.Servers.MongoDB, Used: true},
		{Server: status.SQL, Address: a.Servers.SQL, Used: a.Servers.SQL != "", Note: "none: DATABASE_URL is not set; ingest and relay need one"},
		{Server: "Redis", Used: a.Vectors.Redis != nil && !a.Vectors.Offline, Note: "none: REDIS_URL is not set, or EMBEDDER is hash"},
		{Server: api, Address: a.Vectors.API.BaseURL, Used: withAPI, Note: "none: EMBEDDER is hash"},
	}
	if a.Vectors.Redis != nil {
		answers[3].Address = a.Vectors.Redis.URL
	}
	asks := []func(*app.App) error{askBroker, func(a *app.App) (err error) {
		answers[1].Note, err = askStore(a)
		return err
	}, askDatabase, askRedis, askAPI}
	if a.Queues.Streams > 0 {
		answers = append(answers, status.Server{Server: streams, Address: a.StreamsURI(), Used: true})
		asks = append(asks, askStreams)
	}
	if a.Notify.Ledger != "" { // notifications are in use
		answers = append(answers, status.Server{Server: status.Ledger, Address: a.Notify.Ledger, Used: true})
		asks = append(asks, askLedger)
	}
	var all sync.WaitGroup
	for i, ask := range asks {
		s := &answers[i]
		if !s.Used {
			s.Address = ""
			continue
		}
		s.Address, s.Note = settings.Redact(s.Address), ""
		all.Go(func() {
			bounded := *a
			ctx, cancel := context.WithTimeout(a.Ctx, Patience)
			defer cancel()
			bounded.Ctx = ctx
			if err := ask(&bounded); err != nil {
				s.Error = err.Error()
			}
		})
	}
	all.Wait()
	return answers
}

// askBroker also looks whether the queues are there, as RABBITMQ_PARTITIONS says, and
// whether a setup left slots without a queue.
func askBroker(a *app.App) error {
	partitions, err := a.CheckQueues()
	if err == nil && partitions > 0 {
		err = app.BrokerUnreached(topology.CheckSlots(a.Ctx, a.Servers.RabbitMQ, rabbit.DefaultNames()))
	}
	if err == nil && partitions > 0 && a.Queues.Partitions == 0 {
		return fmt.Errorf("RABBITMQ_PARTITIONS is 0, and the broker is set up with %s: set it to %d", cli.Count(int64(partitions), "partition"), partitions)
	}
	return err
}

// askStreams reads a chunk of each stream, where the node that has it says that it is reached.
func askStreams(a *app.App) error {
	_, err := reader.Look(a.Ctx, a.StreamsClient(), rabbit.DefaultNames())
	return err
}

// askStore also looks whether the database is set up for these settings, and says what
// the server does not promise.
func askStore(a *app.App) (note string, err error) {
	store, err := a.OpenChecked(a.Ctx)
	if err != nil {
		return "", err
	}
	if note, err = store.Durability(a.Ctx); note != "" {
		note = "; " + note
	}
	return note, errors.Join(err, store.Close())
}

// askDatabase also looks whether the tables are there.
func askDatabase(a *app.App) error {
	return a.WithDatabase(func(*outbox.Database) error { return nil })
}

// askLedger also looks whether the tables are there.
func askLedger(a *app.App) error {
	return a.WithLedger(func(*postgres.Ledger) error { return nil })
}

func askRedis(a *app.App) error {
	redis, err := rediscache.New(*a.Vectors.Redis)
	if err != nil {
		return err
	}
	if err := redis.Ping(a.Ctx); err != nil {
		return errors.Join(causes.Ensure(causes.Redis, err), redis.Close())
	}
	return redis.Close()
}

// askAPI has a word embedded: nothing less shows that the key, the model and the
// number of components are right.
func askAPI(a *app.App) error {
	return a.WithEmbedding(a.Vectors, 0, func(e *embedding.Embedding) error {
		_, err := e.API.Embed(a.Ctx, []string{"keyfold"})
		return err
	})
}
