package rabbit

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"keyfold/engine"
)

// checkVersion refuses brokers that do not share partitions out: before RabbitMQ 4.0 a
// queue with a single active consumer knows no priorities.
func (s *session) checkVersion() error {
	version, _ := s.conn.Properties["version"].(string)
	major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0])
	if known := err == nil; !known || major >= 4 || s.config.Partitions.Only != nil {
		return nil
	}
	return engine.ConfigurationError(ReasonNotPartitioned, fmt.Errorf(
		"rabbitmq: the broker is RabbitMQ %s, and only 4.0 or newer spreads partitions over workers: "+
			"give each worker its own by WORKER_PARTITIONS, such as 0-7, or use a newer broker", version))
}

// balance is a worker's part of the partitions. Every worker reckons it from the same
// numbers: of partitions, of workers, and its own. Nothing depends on their agreement:
// the broker delivers to one worker at a time, and where two hold events of one user for
// a moment the store's version check keeps the profile right.
type balance struct {
	consumer   *Consumer
	session    *session
	membership *membership
	layout     layout
	fit        int // prefetch of the worker; see [sizes]
	first      int // the one it began with, until the workers have found each other; then 0
	partitions []*partition
	left       bool // at the last look there were messages to give back, and no pause
	start      func(*partition)
}

// A balance looks at the workers as often as [Timing.Look] says, so many times as often at
// its windows, and after so many looks at the number of partitions.
const (
	looksAtWindows = 10
	looksPerLayout = 5
)

// firstPart is the part of its prefetch that a worker begins with. The first one of several
// that start on a backlog has all partitions for a moment, and what it takes of them has to
// be written before the others get theirs.
const firstPart = 16

// consumePartitions hands over what the partitions bring until ctx or the session ends.
func (c *Consumer) consumePartitions(ctx context.Context, s *session, chunks func() Chunk) error {
	if _, err := c.passGate(ctx, s); err != nil {
		return err
	}
	b := &balance{consumer: c, session: s, fit: c.sizes.fit()}
	if err := b.join(ctx); err != nil {
		return err
	}
	if s.config.Partitions.Only == nil {
		b.first = max(1, b.fit/firstPart)
		b.fit = b.first
	}
	defer b.stats().Owned.Store(0)
	defer b.stats().Workers.Store(0)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() {
		select {
		case <-s.ended:
			cancel(s.reason) // frees a HandOver that waits for room
		case <-ctx.Done():
		}
	})
	b.start = func(p *partition) { working.Go(func() { cancel(p.run(ctx, chunks())) }) }
	layouts := make(chan layout)
	if s.config.Partitions.Only == nil {
		working.Go(func() { c.watchLayout(ctx, b.layout, layouts) })
	}
	cancel(b.run(ctx, layouts))
	working.Wait()
	return context.Cause(ctx)
}

func (b *balance) stats() *PartitionStats { return &b.session.stats.Partitions }

// join finds the partitions, and the worker's place.
func (b *balance) join(ctx context.Context) (err error) {
	c, s := b.consumer, b.session
	if only := s.config.Partitions.Only; only != nil {
		b.layout, b.membership = layout{retired: only}, &membership{workers: 1}
		return s.checkQueues(only...)
	}
	defer context.AfterFunc(ctx, s.socket.abort)() // a stop ends what waits for the broker
	found, err := c.ports.Layout.layout(ctx, s.config.Names)
	switch {
	case err == nil:
		c.layout = found
	case engine.KindOf(err) == engine.Configuration:
		return err
	case len(c.layout.indexes()) > 0: // as last seen
	default:
		if c.layout, err = s.layoutByQueues(); err != nil {
			return err
		}
	}
	b.layout = c.layout
	if n := b.layout.partitions; n > 0 {
		if err := s.checkQueues(b.layout.indexes()[:n]...); err != nil {
			return err
		}
	}
	if b.layout.retired, err = s.existing(b.layout.retired); err != nil {
		return err
	}
	b.membership, err = s.join()
	return err
}

// existing returns which of the retired queues are there. The layout tells of a deleted one
// until the next setup.
func (s *session) existing(retired []int) (found []int, err error) {
	defer s.bounded()()
	for _, i := range retired {
		channel, err := s.conn.Channel()
		if err != nil {
			return nil, Fault("open a channel", err)
		}
		queue := s.config.Names.PartitionQueue(i)
		_, err = channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		_ = channel.Close()
		if err == nil {
			found = append(found, i)
		} else if err = s.config.Names.Fault("look at queue "+queue, err); engine.ReasonOf(err) != ReasonQueueMissing {
			return nil, err
		}
	}
	return found, nil
}

// watchLayout sends the layout when the number of partitions has changed. A question that
// gets no answer is asked again: the broker may be short of memory.
func (c *Consumer) watchLayout(ctx context.Context, now layout, changed chan<- layout) {
	look := time.NewTicker(looksPerLayout * c.config.Timing.Look)
	defer look.Stop()
	n := c.config.Names
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if facts, err := c.ports.Layout.facts(ctx, n, n.LayoutKey(now.partitions)); err != nil || facts[0] {
			continue
		}
		found, err := c.ports.Layout.layout(ctx, n)
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

// run keeps the worker's part up to date.
func (b *balance) run(ctx context.Context, layouts <-chan layout) error {
	b.follow()
	tick := time.NewTicker(b.session.config.Timing.Look / looksAtWindows)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b.layout = <-layouts:
			b.consumer.layout = b.layout
			b.session.log.Info("the number of partitions has changed", slog.Int("partitions", b.layout.partitions), slog.Any("retired", b.layout.retired))
			b.follow()
			continue
		case <-tick.C:
		}
		if err := b.look(n%looksAtWindows == 0); err != nil {
			return err
		}
	}
}

// look acts on the gate, and on what has changed among the workers. While the consumer is
// paused, nothing moves.
func (b *balance) look(workers bool) error {
	s := b.session
	shut, _ := s.gate.state()
	// The first of several messages to be given back is often a moment before the pause.
	left, before := !shut && s.toGiveBack.Load() > 0, b.left
	if b.left = left; s.gate.takeGiveBack() || left && before {
		return errGiveBack
	}
	if shut {
		return nil
	}
	subscribed := true
	for _, p := range b.partitions {
		subscribed = subscribed && p.subscribed.Load()
		p.relieve(workers)
	}
	if subscribed {
		b.consumer.consuming(s, slog.Int("partitions", len(b.partitions)), slog.Int64("owned", b.stats().Owned.Load()), slog.Int64("workers", b.stats().Workers.Load()))
	}
	if !workers {
		return nil
	}
	if err := b.membership.look(); err != nil {
		return err
	}
	b.size()
	b.follow()
	return nil
}

// size has the prefetch follow the size of events. A consumer's prefetch cannot be
// changed, and what the one before it brought comes on top: a higher one is to leave room
// for that. It also waits until the number of workers stays.
func (b *balance) size() {
	z := b.session.sizes
	fit := z.fit()
	if z.full(b.session.bytes.Load()) && fit < b.fit {
		b.fit = fit
	}
	switch {
	case !b.membership.stays():
	case b.first > 0:
		b.fit, b.first = max(b.fit, fit-b.first), 0
	case fit > b.fit+b.fit/4 && z.hold(b.fit+fit):
		b.fit = fit
	}
}

// follow has each partition consumed as it is to be. The retired ones are shared out on
// their own: only they bring nothing new.
func (b *balance) follow() {
	m, all := b.membership, b.layout.indexes()
	if !m.placed() && len(b.partitions) == len(all) {
		return // another number is about to be taken
	}
	inUse, retired := owners(b.layout.partitions, m.workers), owners(len(b.layout.retired), m.workers)
	share := max(1, b.fit/max(1, shareOf(len(inUse), m.workers)+shareOf(len(retired), m.workers)))
	owned := int64(0)
	for i, index := range all {
		of, at := inUse, i
		if i >= len(inUse) {
			of, at = retired, i-len(inUse)
		}
		want := wish{owner: of[at] == m.number, priority: consumerPriority(of, at, m.number, m.workers), prefetch: share}
		if want.owner {
			owned++
		} else {
			want.prefetch = max(1, b.fit/len(all)) // it may have to stand in for all
		}
		b.set(index, want)
	}
	b.stats().Owned.Store(owned)
	b.stats().Workers.Store(int64(m.workers))
}

// shareOf returns how many of n a worker has at most.
func shareOf(n, workers int) int { return (n + workers - 1) / workers }

// set says how a partition is to be consumed, and begins with it where it is new.
func (b *balance) set(index int, want wish) {
	for _, p := range b.partitions {
		if p.index == index {
			if p.wish().owner != want.owner {
				b.stats().Moves.Add(1)
			}
			p.set(want)
			return
		}
	}
	p := newPartition(b.session, index)
	p.want = want
	b.partitions = append(b.partitions, p)
	b.start(p)
}
