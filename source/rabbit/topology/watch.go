package topology

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// Existing returns which of the retired queues are there. The layout tells of a deleted one
// until the next setup.
func Existing(conn *amqp.Connection, n rabbit.Names, retired []int) (found []int, err error) {
	for _, i := range retired {
		channel, err := conn.Channel()
		if err != nil {
			return nil, rabbit.Fault("open a channel", err)
		}
		queue := n.PartitionQueue(i)
		_, err = channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		_ = channel.Close()
		if err == nil {
			found = append(found, i)
		} else if err = n.Fault("look at queue "+queue, err); engine.ReasonOf(err) != rabbit.ReasonQueueMissing {
			return nil, err
		}
	}
	return found, nil
}

// Watch sends the layout when the number of partitions has changed. A question that
// gets no answer is asked again: the broker may be short of memory.
func Watch(ctx context.Context, p *rabbit.Publisher, n rabbit.Names, interval time.Duration, now Layout, changed chan<- Layout) {
	poll := time.NewTicker(interval)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
		if holds, err := facts(ctx, p, n, n.LayoutKey(now.Partitions)); err != nil || holds[0] {
			continue
		}
		found, err := Ask(ctx, p, n)
		if err != nil {
			continue
		}
		now = found
		select {
		case changed <- found:
		case <-ctx.Done():
			return
		}
	}
}
