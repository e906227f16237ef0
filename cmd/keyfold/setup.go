package main

import (
	"errors"
	"fmt"

	"keyfold/engine"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// setupCmd creates what the daemon needs on its servers.
type setupCmd struct {
	ForeignKeys bool   `help:"Tie user_id and product_id of user_interactions to the tables users and products, which have to exist."`
	Print       string `placeholder:"DATABASE" enum:",mysql,mariadb,sqlite" default:"" help:"Print the SQL for mysql, mariadb or sqlite, and change nothing."`
}

// Run sets up all servers, the next one also where one failed, so that one call
// names every fault.
func (c *setupCmd) Run(a *app) error {
	if c.Print != "" {
		text, err := outbox.SQL(c.Print, outbox.SetupOptions{ForeignKeys: c.ForeignKeys})
		fmt.Fprint(a.out, text)
		return err
	}
	return errors.Join(c.broker(a), c.store(a), c.database(a))
}

// database sets up the SQL schema, where there is a database.
func (c *setupCmd) database(a *app) (err error) {
	if a.database.URL == "" {
		fmt.Fprintln(a.out, "SQL: none (DATABASE_URL is not set; ingest and relay need one)")
		return nil
	}
	db, err := openDatabase(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Setup(a.ctx, outbox.SetupOptions{ForeignKeys: c.ForeignKeys}); err != nil {
		return err
	}
	fmt.Fprintln(a.out, "SQL: tables user_interactions and keyfold_relay_shards")
	return nil
}

func (c *setupCmd) broker(a *app) error {
	names := rabbit.DefaultNames()
	err := rabbit.Setup(a.ctx, a.servers.RabbitMQ, rabbit.Topology{
		Names:       names,
		QueueType:   rabbit.QueueType(a.servers.QueueType),
		RetryDelays: rabbit.RetryDelays(a.config.Retry.Delay, a.config.Retry.Attempts),
	})
	if err != nil && engine.KindOf(err) == engine.Transient {
		err = fmt.Errorf("RabbitMQ does not answer: is it running, is RABBITMQ_DSN right? (%w)", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "RabbitMQ: exchange %s, queues %s and %s, retry queues\n", names.Exchange, names.Queue, names.DeadLetters)
	return nil
}

func (c *setupCmd) store(a *app) error {
	store, err := openStore(a)
	if err != nil {
		return err
	}
	notices, err := store.Setup(a.ctx)
	for _, notice := range notices {
		fmt.Fprintln(a.out, "MongoDB:", notice)
	}
	if err == nil {
		fmt.Fprintf(a.out, "MongoDB: database %s, collections user_embeddings and product_embeddings, indexes\n", a.servers.Database)
	}
	return errors.Join(err, store.Close())
}
