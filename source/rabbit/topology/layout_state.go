package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// state is how setups left the broker: what exists there, and what the layout exchange tells.
type state struct {
	oneQueue   bool // the queue of all events exists
	known      bool // the broker has partitions, or had some: others may be bound than those of the one queue
	partitions int  // 0: one queue
	inner      bool // the inner exchanges are in place
	open       []int
	lost       bool // they are, and the layout exchange tells nothing: its queue was deleted
	bare       bool // none of the exchanges of partitions exists: no slot is bound, and nothing is told
}

// readState asks the broker.
func readState(ctx context.Context, c *rabbit.Channel, n rabbit.Names, dsn string) (was state, err error) {
	if was.known, err = setUpWithPartitions(c, n); err != nil || n.Slots == "" {
		return was, err
	}
	was.oneQueue, err = c.Exists(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(n.Queue, true, false, false, false, nil)
		return err
	})
	if err != nil {
		return was, n.Fault("look at queue "+n.Queue, err)
	}
	if !was.known {
		was.bare, err = bare(c, n)
		return was, err
	}
	p := rabbit.NewPublisher(dsn, rabbit.ThisProcess("tool"), "layout", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	found, err := Ask(ctx, p, n)
	if errors.Is(err, errNoPartitions) || errors.Is(err, rabbit.ErrNoExchange) {
		err = nil
	}
	was.known = found.told || found.inner
	was.partitions, was.inner, was.open = found.Partitions, found.inner, found.open
	if err != nil || was.known || found.Retired != nil {
		return was, err
	}
	was.lost, err = c.ExchangeExists(n, n.InnerExchange(n.Slots))
	was.known, was.inner = was.lost, was.lost
	return was, err
}

// bare reports of a broker without the exchange of slots whether it has no other of
// partitions either: bindings go with their exchange.
func bare(c *rabbit.Channel, n rabbit.Names) (bool, error) {
	for _, name := range []string{n.InnerExchange(n.Slots), n.LayoutExchange()} {
		if there, err := c.ExchangeExists(n, name); there || err != nil {
			return false, err
		}
	}
	return true, nil
}

// notes has the layout exchange tell something again, before anything else is changed.
func (t Config) notes(was state) []declaration {
	n := t.Names
	if !was.lost {
		return nil
	}
	return []declaration{
		exchange(n.LayoutExchange(), amqp.ExchangeDirect), queue(n.LayoutExchange(), layoutArguments),
		binding(n.LayoutExchange(), rabbit.InnerKey, n.LayoutExchange()),
	}
}

// lostNotes is the fault of a setup that is to keep a number which nothing tells any more.
func lostNotes(n rabbit.Names) error {
	return engine.ConfigurationError(ReasonSetupInterrupted, fmt.Errorf(
		"rabbitmq: queue %s was deleted, and with it what tells the number of partitions: run %s with --partitions N, the number there was (queues %s and on), or 0 for one queue",
		n.LayoutExchange(), n.SetupCommand(), n.PartitionQueue(0)))
}

// ReasonSetupInterrupted is the reason of slots that were left without the queue of their
// partition: what comes for them waits in the common queue.
const ReasonSetupInterrupted = "setup_interrupted"

// CheckSlots returns a configuration error that names the slots which a setup left without
// the queue of their partition, as far as the layout exchange tells.
func CheckSlots(ctx context.Context, dsn string, names rabbit.Names) error {
	return withLayout(ctx, dsn, names, func(_ *rabbit.Channel, l Layout) error { return openSlots(names, l) })
}

// openSlots returns a configuration error that names the slots which a setup left without
// the queue of their partition.
func openSlots(n rabbit.Names, l Layout) error {
	if l.Partitions == 0 || !l.inner || len(l.open) == 0 {
		return nil
	}
	return engine.ConfigurationError(ReasonSetupInterrupted, fmt.Errorf(
		"rabbitmq: of %d slots %d are not bound to their partition (%v): a setup was interrupted, and their events may wait in %s; run %s with --partitions %d again",
		engine.Slots, len(l.open), l.open, n.CommonQueue(), n.SetupCommand(), l.Partitions))
}

// verify looks whether each slot has the queue of its partition.
func (t Config) verify(ctx context.Context, c *rabbit.Channel, dsn string) error {
	if t.Partitions == 0 {
		return nil
	}
	now, err := readState(ctx, c, t.Names, dsn)
	if err != nil {
		return err
	}
	if now.partitions != t.Partitions {
		return engine.ConfigurationError(ReasonSetupInterrupted, fmt.Errorf(
			"rabbitmq: the broker tells %d partitions and not %d: another setup, of an earlier version, was at work; run %s with --partitions %d again",
			now.partitions, t.Partitions, t.Names.SetupCommand(), t.Partitions))
	}
	return openSlots(t.Names, Layout{Partitions: now.partitions, inner: now.inner, open: now.open})
}

const (
	// lockWait is how long a setup waits for another one to end.
	lockWait  = 2 * time.Minute
	lockPause = 200 * time.Millisecond
)

// lock has one setup at a time at the broker: the lock is a queue that belongs to this
// connection and goes with it.
func lock(ctx context.Context, c *rabbit.Channel, n rabbit.Names) error {
	name := n.Queue + ".setup"
	for end := time.Now().Add(lockWait); ; {
		channel, err := c.Conn.Channel()
		if err != nil {
			return rabbit.Fault("open a channel", err)
		}
		_, err = channel.QueueDeclare(name, false, true, true, false, amqp.Table{"x-queue-type": string(Classic)}) // no other type can be exclusive
		refusal, is := errors.AsType[*amqp.Error](err)
		switch {
		case err == nil:
			return nil // the channel stays open with the connection
		case !is || refusal.Code != amqp.ResourceLocked:
			return n.Fault("declare queue "+name, err)
		case isShared(c, name):
			return engine.ConfigurationError(rabbit.ReasonQueueMismatch, fmt.Errorf(
				"rabbitmq: queue %s is there, and it is not that of a setup: see what uses it, delete it (rabbitmqctl delete_queue) and run %s again", name, n.SetupCommand()))
		case time.Now().After(end):
			return engine.ConfigurationError(rabbit.ReasonQueueLocked, fmt.Errorf(
				"rabbitmq: another setup is at work (it holds queue %s): wait until it has ended and run %s again", name, n.SetupCommand()))
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isShared reports whether a queue exists that is not another connection's alone.
func isShared(c *rabbit.Channel, queue string) bool {
	there, err := c.Exists(func(ch *amqp.Channel) error {
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
