package topology

import (
	"context"
	"errors"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/source/rabbit"
)

// RetiredQueue is a queue that the present number of partitions has no use for.
type RetiredQueue struct {
	Name  string `json:"queue"`
	Ready int    `json:"ready"` // messages; those that consumers hold are not among them
}

// Retired returns the queues of another number of partitions that are still there, after
// [Setup] of t. Setup deletes no queue.
func Retired(ctx context.Context, dsn string, t Config) (retired []RetiredQueue, err error) {
	err = withLayout(ctx, dsn, t.Names, func(c *rabbit.Channel, l Layout) (err error) {
		retired, err = retiredQueues(c, t.Names, l, t.Partitions, t.RetryDelays)
		return err
	})
	return retired, err
}

// RetiredCommands returns the commands that show whether the queues are empty, and that
// delete them.
func RetiredCommands(dsn string, queues []RetiredQueue) (all []string) {
	_, _, vhost, err := rabbit.Account(dsn)
	if err != nil || len(queues) == 0 {
		return nil
	}
	all = append(all, "rabbitmqctl list_queues -p "+vhost+" name messages")
	for _, q := range queues {
		all = append(all, "rabbitmqctl delete_queue -p "+vhost+" "+q.Name)
	}
	return all
}

// CountPartitions returns the number of partitions that the broker is set up with; 0: one
// queue.
func CountPartitions(ctx context.Context, dsn string, names rabbit.Names) (partitions int, err error) {
	err = withLayout(ctx, dsn, names, func(_ *rabbit.Channel, l Layout) error {
		partitions = l.Partitions
		return nil
	})
	return partitions, err
}

// Depths returns how many messages are ready in each of the queues that events wait in,
// also the retired ones: see [rabbit.Depth]. names must have partitions.
func Depths(ctx context.Context, dsn string, names rabbit.Names, delays []time.Duration) (depths map[string]int, err error) {
	depths = map[string]int{}
	err = withLayout(ctx, dsn, names, func(c *rabbit.Channel, l Layout) error {
		for _, partitions := range []int{0, rabbit.MaxPartitions} { // all partitions, and the one queue
			queues, err := retiredQueues(c, names, l, partitions, delays)
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
func withLayout(ctx context.Context, dsn string, names rabbit.Names, do func(*rabbit.Channel, Layout) error) error {
	c, err := rabbit.OpenChannel(ctx, dsn, "tool", "layout")
	if err != nil {
		return err
	}
	defer c.CloseConnection(ctx)
	return c.During(ctx, func() error {
		were, err := setUpWithPartitions(c, names)
		if err != nil || !were {
			return err
		}
		p := rabbit.NewPublisher(dsn, rabbit.ThisProcess("tool"), "layout", rabbit.Timing{}, slog.New(slog.DiscardHandler))
		found, err := Ask(ctx, p, names)
		if closing := p.Close(ctx); err == nil {
			err = closing
		}
		if err != nil && !errors.Is(err, errNoPartitions) { // all queues of partitions were deleted
			return err
		}
		return do(c, found)
	})
}

// retiredQueues returns the queues that so many partitions have no use for.
func retiredQueues(c *rabbit.Channel, n rabbit.Names, l Layout, partitions int, delays []time.Duration) ([]RetiredQueue, error) {
	main, retry := n.Queue, n.RetryQueue
	if partitions == 0 {
		main, retry = n.CommonQueue(), n.RetryExchange
	}
	var candidates []string // the delays first: they give back to the queue behind them
	for _, d := range delays {
		candidates = append(candidates, retry(d))
	}
	candidates = append(candidates, main)
	for _, i := range l.Indexes() {
		if i >= partitions {
			candidates = append(candidates, n.PartitionQueue(i))
		}
	}
	return present(c, n, candidates)
}

// present returns those of the queues that are there. The layout exchange forgets a
// partition's queue that was deleted.
func present(c *rabbit.Channel, n rabbit.Names, queues []string) (present []RetiredQueue, err error) {
	for _, name := range queues {
		var q amqp.Queue
		there, err := c.Exists(func(ch *amqp.Channel) (err error) {
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
		for i := range rabbit.MaxPartitions {
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

// setUpWithPartitions reports whether the broker was ever set up with partitions.
func setUpWithPartitions(c *rabbit.Channel, n rabbit.Names) (bool, error) {
	if n.Slots == "" {
		return false, nil
	}
	return c.ExchangeExists(n, n.Slots)
}
