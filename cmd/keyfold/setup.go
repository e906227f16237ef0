package main

import (
	"errors"
	"fmt"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// setupCmd creates what the daemon needs on its servers.
type setupCmd struct{}

// Run sets up both servers, the second also where the first failed, so that one
// call names every fault.
func (c *setupCmd) Run(a *app) error {
	return errors.Join(c.broker(a), c.store(a))
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
