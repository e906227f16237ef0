package rabbit

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

// QueueState is what the broker says of a queue without giving out a message.
type QueueState struct {
	Ready     int // messages; those that consumers hold are not among them
	Consumers int
}

// States returns the states of those of the queues that the broker has, by name.
func States(ctx context.Context, dsn string, queues []string) (map[string]QueueState, error) {
	c, err := OpenChannel(ctx, dsn, "tool", "states")
	if err != nil {
		return nil, err
	}
	defer closeBounded(ctx, c.conn, c.socket)
	states := make(map[string]QueueState, len(queues))
	err = c.During(ctx, func() error {
		for _, name := range queues {
			var q amqp.Queue
			there, err := c.exists(func(ch *amqp.Channel) (err error) {
				q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
				return err
			})
			if err != nil {
				return Fault("look at queue "+name, err)
			}
			if there {
				states[name] = QueueState{q.Messages, q.Consumers}
			}
		}
		return nil
	})
	return states, err
}

// Account returns the user, the password and the virtual host of a DSN.
func Account(dsn string) (user, password, vhost string, err error) {
	uri, err := parseDSN(dsn)
	return uri.Username, uri.Password, uri.Vhost, err
}
