package main

import (
	"context"
	"fmt"
	"time"

	"keyfold/internal/testserver/rabbittest"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The queues that the manifests count, and one that they must not.
var (
	counted = []string{"user_embedding_updates", "user_embedding_updates.00", "user_embedding_updates.07"}
	other   = "user_embedding_updates_failed"
)

// queues are those of a real broker, where this program is publisher and consumer.
type queues struct {
	broker     *rabbittest.Broker
	connection *amqp.Connection
	channel    *amqp.Channel
}

func newQueues(dir string) (*queues, error) {
	broker, err := rabbittest.LaunchWithStatistics(dir)
	if err != nil {
		return nil, err
	}
	connection, err := connect(broker)
	if err != nil {
		broker.Stop()
		return nil, err
	}
	q := &queues{broker: broker, connection: connection}
	if q.channel, err = connection.Channel(); err != nil {
		q.close()
		return nil, err
	}
	for _, name := range append(counted, other) {
		if _, err := q.channel.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			q.close()
			return nil, err
		}
	}
	return q, nil
}

// connect has the broker gather statistics as often as it does by default: rates are 0 from time to time where it
// does more often, as brokers of tests do.
func connect(broker *rabbittest.Broker) (*amqp.Connection, error) {
	if _, err := broker.Eval("ok = application:set_env(rabbit, collect_statistics_interval, 5000)."); err != nil {
		return nil, err
	}
	return amqp.Dial(broker.DSN("/"))
}

func (q *queues) close() {
	q.connection.Close()
	q.broker.Stop()
}

func publish(ctx context.Context, channel *amqp.Channel, name string, n int) error {
	for range n {
		if err := channel.PublishWithContext(ctx, "", name, false, false, amqp.Publishing{Body: []byte("{}")}); err != nil {
			return err
		}
	}
	return nil
}

// fill has so many messages ready in all queues that count, evenly.
func (q *queues) fill(ctx context.Context, n int) error {
	for i, name := range counted {
		if _, err := q.channel.QueuePurge(name, false); err != nil {
			return err
		}
		if err := publish(ctx, q.channel, name, (n+i)/len(counted)); err != nil {
			return err
		}
	}
	return nil
}

// flow publishes and takes so many messages a second, until the context ends.
func (q *queues) flow(ctx context.Context, perSecond int) error {
	channel, err := q.connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := publish(context.WithoutCancel(ctx), channel, counted[0], 1); err != nil {
			return err
		}
		if _, _, err := channel.Get(counted[0], true); err != nil {
			return err
		}
	}
}

// arriving returns an error unless the broker says that more than so many messages arrive a second.
func (q *queues) arriving(ctx context.Context, more float64) error {
	var said struct {
		MessageStats struct {
			PublishDetails struct{ Rate float64 } `json:"publish_details"`
		} `json:"message_stats"`
	}
	if err := q.broker.Manage(ctx, "GET", "queues/%2F/"+counted[0], nil, &said); err != nil {
		return err
	}
	if rate := said.MessageStats.PublishDetails.Rate; rate <= more {
		return fmt.Errorf("%.1f messages a second arrive", rate)
	}
	return nil
}
