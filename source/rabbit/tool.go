package rabbit

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Channel is a channel on a connection of its own, for tools that look at the
// broker's queues.
type Channel struct {
	*amqp.Channel
	Conn   *amqp.Connection
	socket *Socket
}

// OpenChannel connects within ctx. role and purpose stand in the connection's name.
func OpenChannel(ctx context.Context, dsn, role, purpose string) (*Channel, error) {
	conn, s, err := Dialer{DSN: dsn, Name: ThisProcess(role).Connection(purpose), Timing: Timing{}.OrDefaults()}.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer s.BoundBy(ctx)()
	channel, err := conn.Channel()
	if err != nil {
		CloseBounded(ctx, conn, s)
		return nil, Fault("open a channel", err)
	}
	return &Channel{channel, conn, s}, nil
}

// During ends the connection by force where ctx ends before work returns: the
// library waits for the broker's answers without a limit.
func (c *Channel) During(ctx context.Context, work func() error) error {
	defer c.socket.BoundBy(ctx)()
	return work()
}

// Gather sends what work writes together.
func (c *Channel) Gather(work func() error) error {
	c.socket.Cork()
	defer c.socket.Uncork()
	return work()
}

// Ready returns how many messages are ready in a queue: those that consumers
// hold are not among them. An error names the command that sets names up.
func (c *Channel) Ready(names Names, queue string) (int, error) {
	q, err := c.look(names, queue)
	return q.Messages, err
}

func (c *Channel) look(names Names, queue string) (amqp.Queue, error) {
	q, err := c.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return q, names.Fault("look at queue "+queue, err)
	}
	return q, nil
}

// Disconnect closes channel and connection in order, by force when ctx ends. The
// error is the channel's.
func (c *Channel) Disconnect(ctx context.Context) (err error) {
	err = c.During(ctx, c.Close)
	CloseBounded(ctx, c.Conn, c.socket)
	return err
}

// CloseConnection closes channel and connection without waiting for more than ctx allows.
func (c *Channel) CloseConnection(ctx context.Context) { CloseBounded(ctx, c.Conn, c.socket) }

// Depth returns how many messages are ready in a queue, without taking any:
// those that workers hold are not among them.
func Depth(ctx context.Context, dsn, queue string) (n int, err error) {
	c, err := OpenChannel(ctx, dsn, "tool", "depth")
	if err != nil {
		return 0, err
	}
	defer c.CloseConnection(ctx)
	err = c.During(ctx, func() error { n, err = c.Ready(Names{}, queue); return err })
	return n, err
}

// Waiting returns how many events are ready in the queue that workers consume, or in its
// partitions.
func Waiting(ctx context.Context, dsn string, partitions int) (int, error) {
	ready, _, err := Consumed(ctx, dsn, partitions)
	return ready, err
}

// Consumed is [Waiting], and how many consumers there are.
func Consumed(ctx context.Context, dsn string, partitions int) (ready, consumers int, err error) {
	n := DefaultNames()
	c, err := OpenChannel(ctx, dsn, "tool", "depth")
	if err != nil {
		return 0, 0, err
	}
	defer c.CloseConnection(ctx)
	var queues []string
	if partitions == 0 {
		queues = []string{n.Queue}
	}
	for i := range partitions {
		queues = append(queues, n.PartitionQueue(i))
	}
	err = c.During(ctx, func() error {
		for _, queue := range queues {
			q, err := c.look(n, queue)
			if err != nil {
				return err
			}
			ready, consumers = ready+q.Messages, consumers+q.Consumers
		}
		return nil
	})
	return ready, consumers, err
}

// Version returns that of the broker, "" where it does not say.
func Version(ctx context.Context, dsn string) (string, error) {
	c, err := OpenChannel(ctx, dsn, "tool", "version")
	if err != nil {
		return "", err
	}
	defer c.CloseConnection(ctx)
	version, _ := c.Conn.Properties["version"].(string)
	return version, nil
}

// ExchangeExists reports whether a direct exchange exists.
func (c *Channel) ExchangeExists(n Names, name string) (bool, error) {
	there, err := c.Exists(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(name, amqp.ExchangeDirect, true, false, false, false, nil)
	})
	if err != nil {
		return false, n.Fault("look at exchange "+name, err)
	}
	return there, nil
}

// Exists reports whether the broker knows what look declares passively. It does so on a
// channel of its own, which the broker closes where it does not.
func (c *Channel) Exists(look func(*amqp.Channel) error) (bool, error) {
	channel, err := c.Conn.Channel()
	if err != nil {
		return false, err
	}
	defer func() { _ = channel.Close() }()
	err = look(channel)
	if refusal, ok := errors.AsType[*amqp.Error](err); ok && refusal.Code == amqp.NotFound {
		return false, nil
	}
	return err == nil, err
}
