package topology

import (
	"context"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// netArguments are those of the worker's queue as Setup declares it. A policy may have
// messages expire or bound the queue: what expires in a classic queue goes to the dead
// letters too, and a full one refuses new messages. Without that the broker drops both in
// silence.
func (t Config) netArguments() amqp.Table {
	arguments := t.mainArguments()
	if t.classic() && t.Names.DeadLetters != "" {
		arguments["x-dead-letter-exchange"], arguments["x-dead-letter-routing-key"] = "", t.Names.DeadLetters
		arguments["x-overflow"] = overflow
	}
	return arguments
}

// checkMain compares the worker's queue with what Setup declares, and a classic one with
// what earlier versions did.
func (t Config) checkMain(conn *amqp.Connection) error {
	err := compare(conn, t.Names, t.Names.Queue, t.netArguments())
	if engine.ReasonOf(err) != rabbit.ReasonQueueMismatch || !t.classic() {
		return err
	}
	earlier := compare(conn, t.Names, t.Names.Queue, t.mainArguments())
	if earlier != nil && !strings.Contains(err.Error(), "x-dead-letter-") {
		return err // of a queue with a net, the other one would name no fault but that
	}
	return earlier
}

// WithoutNet returns the command that gives the worker's queue a net, where it is a classic
// one that an earlier version has declared; otherwise "".
func WithoutNet(ctx context.Context, dsn string, t Config) (command string, err error) {
	if t.Partitions > 0 || !t.classic() || t.Names.DeadLetters == "" {
		return "", nil
	}
	c, err := rabbit.OpenChannel(ctx, dsn, "tool", "net")
	if err != nil {
		return "", err
	}
	defer c.CloseConnection(ctx)
	err = c.During(ctx, func() error {
		if engine.ReasonOf(compare(c.Conn, t.Names, t.Names.Queue, t.netArguments())) == rabbit.ReasonQueueMismatch {
			command = t.netCommand(dsn)
		}
		return nil
	})
	return command, err
}

// netCommand is the policy that is a net. The arguments of a queue that is there cannot be
// changed.
func (t Config) netCommand(dsn string) string {
	_, _, vhost, err := rabbit.Account(dsn)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(`rabbitmqctl set_policy -p %s --priority 100 --apply-to queues keyfold-net '^%s$' '{"dead-letter-exchange":"","dead-letter-routing-key":"%s","overflow":"%s"}'`,
		vhost, t.Names.Queue, t.Names.DeadLetters, overflow)
}
