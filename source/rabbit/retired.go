package rabbit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// RetiredQueue is a queue that the present number of partitions has no use for.
type RetiredQueue struct {
	Name  string `json:"queue"`
	Ready int    `json:"ready"` // messages; those that consumers hold are not among them
}

// Retired returns the queues of another number of partitions that are still there, after
// [Setup] of t. Setup deletes no queue.
func Retired(ctx context.Context, dsn string, t Topology) (retired []RetiredQueue, err error) {
	err = withLayout(ctx, dsn, t.Names, func(c *Channel, l layout) (err error) {
		retired, err = t.Names.retired(c, l, t.Partitions, t.RetryDelays)
		return err
	})
	return retired, err
}

// RetiredCommands returns the commands that show whether the queues are empty, and that
// delete them.
func RetiredCommands(dsn string, queues []RetiredQueue) (all []string) {
	uri, err := parseDSN(dsn)
	if err != nil || len(queues) == 0 {
		return nil
	}
	all = append(all, "rabbitmqctl list_queues -p "+uri.Vhost+" name messages")
	for _, q := range queues {
		all = append(all, "rabbitmqctl delete_queue -p "+uri.Vhost+" "+q.Name)
	}
	return all
}

// CountPartitions returns the number of partitions that the broker is set up with; 0: one
// queue.
func CountPartitions(ctx context.Context, dsn string, names Names) (partitions int, err error) {
	err = withLayout(ctx, dsn, names, func(_ *Channel, l layout) error {
		partitions = l.partitions
		return nil
	})
	return partitions, err
}

// Depths returns how many messages are ready in each of the queues that events wait in,
// also the retired ones: see [Depth]. names must have partitions.
func Depths(ctx context.Context, dsn string, names Names, delays []time.Duration) (depths map[string]int, err error) {
	depths = map[string]int{}
	err = withLayout(ctx, dsn, names, func(c *Channel, l layout) error {
		for _, partitions := range []int{0, MaxPartitions} { // all partitions, and the one queue
			queues, err := names.retired(c, l, partitions, delays)
			if err != nil {
				return err
			}
			for _, q := range queues {
				depths[q.Name] = q.Ready
			}
		}
		return nil
	})
	return depths, err
}

// withLayout calls do with the broker's layout, where it was ever set up with partitions.
func withLayout(ctx context.Context, dsn string, names Names, do func(*Channel, layout) error) error {
	c, err := OpenChannel(ctx, dsn, "tool", "layout")
	if err != nil {
		return err
	}
	defer closeBounded(ctx, c.conn, c.socket)
	return c.During(ctx, func() error {
		were, err := names.partitioned(c)
		if err != nil || !were {
			return err
		}
		p := NewPublisher(dsn, ThisProcess("tool"), "layout", Timing{}, slog.New(slog.DiscardHandler))
		found, err := p.layout(ctx, names)
		if closing := p.Close(ctx); err == nil {
			err = closing
		}
		if err != nil && !errors.Is(err, errNoPartitions) { // all queues of partitions were deleted
			return err
		}
		return do(c, found)
	})
}

// retired returns the queues that so many partitions have no use for.
func (n Names) retired(c *Channel, l layout, partitions int, delays []time.Duration) ([]RetiredQueue, error) {
	main, retry := n.Queue, n.RetryQueue
	if partitions == 0 {
		main, retry = n.CommonQueue(), n.RetryExchange
	}
	var candidates []string // the delays first: they give back to the queue behind them
	for _, d := range delays {
		candidates = append(candidates, retry(d))
	}
	candidates = append(candidates, main)
	for _, i := range l.indexes() {
		if i >= partitions {
			candidates = append(candidates, n.PartitionQueue(i))
		}
	}
	return n.present(c, candidates)
}

// present returns those of the queues that are there. The layout exchange forgets a
// partition's queue that was deleted.
func (n Names) present(c *Channel, queues []string) (present []RetiredQueue, err error) {
	for _, name := range queues {
		var q amqp.Queue
		there, err := c.exists(func(ch *amqp.Channel) (err error) {
			q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
			return err
		})
		if err != nil {
			return nil, n.Fault("look at queue "+name, err)
		}
		if there {
			present = append(present, RetiredQueue{name, q.Messages})
			continue
		}
		for i := range MaxPartitions {
			if n.PartitionQueue(i) == name {
				gone := unbinding(n.LayoutExchange(), n.DeclaredKey(i), n.LayoutExchange())
				if err := gone.declare(c.Channel); err != nil {
					return nil, n.Fault(gone.name, err)
				}
			}
		}
	}
	return present, nil
}

// partitioned reports whether the broker was ever set up with partitions.
func (n Names) partitioned(c *Channel) (bool, error) {
	if n.Slots == "" {
		return false, nil
	}
	there, err := c.exists(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(n.Slots, amqp.ExchangeDirect, true, false, false, false, nil)
	})
	if err != nil {
		return false, n.Fault("look at exchange "+n.Slots, err)
	}
	return there, nil
}

// exists reports whether the broker knows what look declares passively. It does so on a
// channel of its own, which the broker closes where it does not.
func (c *Channel) exists(look func(*amqp.Channel) error) (bool, error) {
	channel, err := c.conn.Channel()
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
