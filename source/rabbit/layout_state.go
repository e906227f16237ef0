package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// state is how setups left the broker: what exists there, and what the layout exchange tells.
type state struct {
	oneQueue   bool // the queue of all events exists
	known      bool // the broker has partitions, or had some: others may be bound than those of the one queue
	partitions int  // 0: one queue
	inner      bool // the inner exchanges are in place
	open       []int
	lost       bool // they are, and the layout exchange tells nothing: its queue was deleted
}

// state asks the broker.
func (n Names) state(ctx context.Context, c *Channel, dsn string) (was state, err error) {
	if was.known, err = n.partitioned(c); err != nil || n.Slots == "" {
		return was, err
	}
	was.oneQueue, err = c.exists(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(n.Queue, true, false, false, false, nil)
		return err
	})
	if err != nil || !was.known {
		return was, n.faultOrNil("look at queue "+n.Queue, err)
	}
	p := NewPublisher(dsn, ThisProcess("tool"), "layout", Timing{}, slog.New(slog.DiscardHandler))
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	found, err := p.layout(ctx, n)
	if errors.Is(err, errNoPartitions) || errors.Is(err, ErrNoExchange) {
		err = nil
	}
	was.known = found.told || found.inner
	was.partitions, was.inner, was.open = found.partitions, found.inner, found.open
	if err != nil || was.known || found.retired != nil {
		return was, err
	}
	was.lost, err = c.exists(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(n.InnerExchange(n.Slots), amqp.ExchangeDirect, true, false, false, false, nil)
	})
	was.known, was.inner = was.lost, was.lost
	return was, n.faultOrNil("look at exchange "+n.InnerExchange(n.Slots), err)
}

// notes has the layout exchange tell something again, before anything else is changed.
func (t Topology) notes(was state) []declaration {
	n := t.Names
	if !was.lost {
		return nil
	}
	return []declaration{
		exchange(n.LayoutExchange(), amqp.ExchangeDirect), queue(n.LayoutExchange(), layoutArguments),
		binding(n.LayoutExchange(), innerKey, n.LayoutExchange()),
	}
}

// lostNotes is the fault of a setup that is to keep a number which nothing tells any more.
func (n Names) lostNotes() error {
	return engine.ConfigurationError(ReasonSetupInterrupted, fmt.Errorf(
		"rabbitmq: queue %s was deleted, and with it what tells the number of partitions: run %s with --partitions N, the number there was (queues %s and on), or 0 for one queue",
		n.LayoutExchange(), n.setupCommand(), n.PartitionQueue(0)))
}

func (n Names) faultOrNil(doing string, err error) error {
	if err == nil {
		return nil
	}
	return n.Fault(doing, err)
}

// ReasonSetupInterrupted is the reason of slots that were left without the queue of their
// partition: what comes for them waits in the common queue.
const ReasonSetupInterrupted = "setup_interrupted"

// CheckSlots returns a configuration error that names the slots which a setup left without
// the queue of their partition, as far as the layout exchange tells.
func CheckSlots(ctx context.Context, dsn string, names Names) error {
	return withLayout(ctx, dsn, names, func(_ *Channel, l layout) error { return names.openSlots(l) })
}

// openSlots returns a configuration error that names the slots which a setup left without
// the queue of their partition.
func (n Names) openSlots(l layout) error {
	if l.partitions == 0 || !l.inner || len(l.open) == 0 {
		return nil
	}
	return engine.ConfigurationError(ReasonSetupInterrupted, fmt.Errorf(
		"rabbitmq: of %d slots %d are not bound to their partition (%v): a setup was interrupted, and their events may wait in %s; run %s with --partitions %d again",
		engine.Slots, len(l.open), l.open, n.CommonQueue(), n.setupCommand(), l.partitions))
}

// verify looks whether each slot has the queue of its partition.
func (t Topology) verify(ctx context.Context, c *Channel, dsn string) error {
	if t.Partitions == 0 {
		return nil
	}
	now, err := t.Names.state(ctx, c, dsn)
	if err != nil {
		return err
	}
	if now.partitions != t.Partitions {
		return engine.ConfigurationError(ReasonSetupInterrupted, fmt.Errorf(
			"rabbitmq: the broker tells %d partitions and not %d: another setup, of an earlier version, was at work; run %s with --partitions %d again",
			now.partitions, t.Partitions, t.Names.setupCommand(), t.Partitions))
	}
	return t.Names.openSlots(layout{partitions: now.partitions, inner: now.inner, open: now.open})
}

const (
	// lockWait is how long a setup waits for another one to end.
	lockWait  = 2 * time.Minute
	lockPause = 200 * time.Millisecond
)

// lock has one setup at a time at the broker: the lock is a queue that belongs to this
// connection and goes with it.
func (c *Channel) lock(ctx context.Context, n Names) error {
	name := n.Queue + ".setup"
	for end := time.Now().Add(lockWait); ; {
		channel, err := c.conn.Channel()
		if err != nil {
			return Fault("open a channel", err)
		}
		_, err = channel.QueueDeclare(name, false, true, true, false, amqp.Table{"x-queue-type": string(Classic)}) // no other type can be exclusive
		refusal, is := errors.AsType[*amqp.Error](err)
		switch {
		case err == nil:
			return nil // the channel stays open with the connection
		case !is || refusal.Code != amqp.ResourceLocked:
			return n.Fault("declare queue "+name, err)
		case c.shared(name):
			return engine.ConfigurationError(ReasonQueueMismatch, fmt.Errorf(
				"rabbitmq: queue %s is there, and it is not that of a setup: see what uses it, delete it (rabbitmqctl delete_queue) and run %s again", name, n.setupCommand()))
		case time.Now().After(end):
			return engine.ConfigurationError(ReasonQueueLocked, fmt.Errorf(
				"rabbitmq: another setup is at work (it holds queue %s): wait until it has ended and run %s again", name, n.setupCommand()))
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// shared reports whether a queue exists that is not another connection's alone.
func (c *Channel) shared(queue string) bool {
	there, err := c.exists(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		return err
	})
	return there && err == nil
}

// openOf returns the slots whose fact does not hold.
func openOf(bound []bool) (open []int) {
	for slot := range bound {
		if !bound[slot] {
			open = append(open, slot)
		}
	}
	return slices.Clip(open)
}
