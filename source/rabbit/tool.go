package rabbit

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Channel is a channel on a connection of its own, for tools that look at the
// broker's queues.
type Channel struct {
	*amqp.Channel
	conn   *amqp.Connection
	socket *socket
}

// OpenChannel connects within ctx. role and purpose stand in the connection's name.
func OpenChannel(ctx context.Context, dsn, role, purpose string) (*Channel, error) {
	conn, s, err := dialer{dsn: dsn, name: ThisProcess(role).connection(purpose), timing: Timing{}.orDefaults()}.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, s.abort)()
	channel, err := conn.Channel()
	if err != nil {
		closeBounded(ctx, conn, s)
		return nil, Fault("open a channel", err)
	}
	return &Channel{channel, conn, s}, nil
}

// During ends the connection by force where ctx ends before work returns: the
// library waits for the broker's answers without a limit.
func (c *Channel) During(ctx context.Context, work func() error) error {
	defer context.AfterFunc(ctx, c.socket.abort)()
	return work()
}

// Gather sends what work writes together.
func (c *Channel) Gather(work func() error) error {
	c.socket.cork()
	defer c.socket.uncork()
	return work()
}

// Ready returns how many messages are ready in a queue: those that consumers
// hold are not among them. An error names the command that sets names up.
func (c *Channel) Ready(names Names, queue string) (int, error) {
	q, err := c.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return 0, names.Fault("look at queue "+queue, err)
	}
	return q.Messages, nil
}

// Disconnect closes channel and connection in order, by force when ctx ends. The
// error is the channel's.
func (c *Channel) Disconnect(ctx context.Context) (err error) {
	err = c.During(ctx, c.Close)
	closeBounded(ctx, c.conn, c.socket)
	return err
}

// Depth returns how many messages are ready in a queue, without taking any:
// those that workers hold are not among them.
func Depth(ctx context.Context, dsn, queue string) (n int, err error) {
	c, err := OpenChannel(ctx, dsn, "tool", "depth")
	if err != nil {
		return 0, err
	}
	defer closeBounded(ctx, c.conn, c.socket)
	err = c.During(ctx, func() error { n, err = c.Ready(Names{}, queue); return err })
	return n, err
}
