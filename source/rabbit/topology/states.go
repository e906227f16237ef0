package topology

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/source/rabbit"
)

// QueueState is what the broker says of a queue without giving out a message.
type QueueState struct {
	Ready     int // messages; those that consumers hold are not among them
	Consumers int
}

// States returns the states of those of the queues that the broker has, by name.
func States(ctx context.Context, dsn string, queues []string) (map[string]QueueState, error) {
	c, err := rabbit.OpenChannel(ctx, dsn, "tool", "states")
	if err != nil {
		return nil, err
	}
	defer c.CloseConnection(ctx)
	states := make(map[string]QueueState, len(queues))
	err = c.During(ctx, func() error {
		for _, name := range queues {
			var q amqp.Queue
			there, err := c.Exists(func(ch *amqp.Channel) (err error) {
				q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
				return err
			})
			if err != nil {
				return rabbit.Fault("look at queue "+name, err)
			}
			if there {
				states[name] = QueueState{q.Messages, q.Consumers}
			}
		}
		return nil
	})
	return states, err
}
