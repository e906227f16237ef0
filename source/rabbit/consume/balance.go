package consume

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/source/rabbit/partition"
	"keyfold/source/rabbit/topology"
)

// balance is a worker's part of the partitions. Every worker reckons it from the same
// numbers: of partitions, of workers, and its own. Nothing depends on their agreement:
// the broker delivers to one worker at a time, and where two hold events of one user for
// a moment the store's version check keeps the profile right.
type balance struct {
	consumer   *Consumer
	session    *session
	membership *partition.Membership
	layout     topology.Layout
	capacity   int // prefetch of the worker; see [sizes]
	first      int // the one it began with, until the workers have found each other; then 0
	partitions []*partitionConsumer
	unsettled  bool // at the last poll there were messages to give back, and no pause
	start      func(*partitionConsumer)
}

// A balance polls the workers as often as [rabbit.Timing.Poll] says, its windows this many times as
// often, and the number of partitions each time after this many polls of the workers.
const (
	windowPolls    = 10
	pollsPerLayout = 5
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
	b := &balance{consumer: c, session: s, capacity: c.sizes.capacity()}
	if err := b.join(ctx); err != nil {
		return err
	}
	if s.config.Partitions.Only == nil {
		b.first = max(1, b.capacity/firstPart)
		b.capacity = b.first
	}
	defer b.stats().Own()
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
	b.start = func(p *partitionConsumer) { working.Go(func() { cancel(p.run(ctx, chunks())) }) }
	layouts := make(chan topology.Layout)
	if s.config.Partitions.Only == nil {
		working.Go(func() {
			topology.Watch(ctx, c.ports.Layout, c.config.Names, pollsPerLayout*c.config.Timing.Poll, b.layout, layouts)
		})
	}
	cancel(b.run(ctx, layouts))
	working.Wait()
	return context.Cause(ctx)
}

func (b *balance) stats() *partition.Stats { return &b.session.stats.Partitions }

// join finds the partitions, and the worker's place.
func (b *balance) join(ctx context.Context) (err error) {
	c, s := b.consumer, b.session
	if only := s.config.Partitions.Only; only != nil {
		b.layout, b.membership = topology.Layout{Retired: only}, partition.Alone()
		return s.checkQueues(only...)
	}
	defer context.AfterFunc(ctx, s.socket.Abort)() // a stop ends what waits for the broker
	found, err := topology.Ask(ctx, c.ports.Layout, s.config.Names)
	switch {
	case err == nil:
		c.layout = found
	case engine.KindOf(err) == engine.Configuration:
		return err
	case len(c.layout.Indexes()) > 0: // as last seen
	default:
		if c.layout, err = s.layoutByQueues(); err != nil {
			return err
		}
	}
	b.layout = c.layout
	if n := b.layout.Partitions; n > 0 {
		if err := s.checkQueues(b.layout.Indexes()[:n]...); err != nil {
			return err
		}
	}
	if b.layout.Retired, err = s.existing(b.layout.Retired); err != nil {
		return err
	}
	b.membership, err = partition.Join(s.ofMembership())
	return err
}

// layoutByQueues and existing look at the broker's queues for as long as a connection may take.
func (s *session) layoutByQueues() (topology.Layout, error) {
	defer s.bounded()()
	return topology.ByQueues(s.conn, s.config.Names)
}

func (s *session) existing(retired []int) ([]int, error) {
	defer s.bounded()()
	return topology.Existing(s.conn, s.config.Names, retired)
}

// ofMembership returns what the worker's place among the others needs of the session.
func (s *session) ofMembership() partition.Session {
	return partition.Session{
		Conn: s.conn, Names: s.config.Names, Tag: s.config.Identity.Tag(s.generation, 0, 0),
		Bounded: s.bounded, Go: s.watches.Go,
		Watch: func(channel *amqp.Channel) { s.watch(channel, new(atomic.Bool)) },
	}
}

// run keeps the worker's part up to date.
func (b *balance) run(ctx context.Context, layouts <-chan topology.Layout) error {
	b.follow()
	tick := time.NewTicker(b.session.config.Timing.Poll / windowPolls)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b.layout = <-layouts:
			b.consumer.layout = b.layout
			b.session.log.Info("the number of partitions has changed", slog.Int("partitions", b.layout.Partitions), slog.Any("retired", b.layout.Retired))
			b.follow()
			continue
		case <-tick.C:
		}
		if err := b.poll(n%windowPolls == 0); err != nil {
			return err
		}
	}
}

// poll acts on the gate, and on what has changed among the workers. While the consumer is
// paused, nothing moves.
func (b *balance) poll(workers bool) error {
	s := b.session
	shut, _ := s.gate.state()
	// The first of several messages to be given back is often a moment before the pause.
	stays, before := !shut && s.toGiveBack.Load() > 0, b.unsettled
	if b.unsettled = stays; s.gate.takeGiveBack() || stays && before {
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
	if err := b.membership.Poll(); err != nil {
		return err
	}
	b.resize(b.membership.Settled())
	b.follow()
	return nil
}

// resize has the prefetch follow the size of events. A consumer's prefetch cannot be
// changed, and what the one before it brought comes on top: a higher one is to leave room
// for that. It also waits until the number of workers has settled.
func (b *balance) resize(settled bool) {
	z := b.session.sizes
	capacity := z.capacity()
	if z.overBudget(b.session.bytes.Load()) && capacity < b.capacity {
		b.capacity = capacity
	}
	switch {
	case !settled:
	case b.first > 0:
		b.capacity, b.first = max(b.capacity, capacity-b.first), 0
	case capacity > b.capacity+b.capacity/4 && z.fits(b.capacity+capacity):
		b.capacity = capacity
	}
}

// follow has each partition consumed as it is to be.
func (b *balance) follow() {
	m, all := b.membership, b.layout.Indexes()
	if !m.Placed() && len(b.partitions) == len(all) {
		return // another number is about to be taken
	}
	var mine []int
	for i, want := range partition.Allot(b.layout, m.Number, m.Workers, b.capacity) {
		if want.Owner {
			mine = append(mine, all[i])
		}
		b.set(all[i], want)
	}
	b.stats().Own(mine...)
	b.stats().Workers.Store(int64(m.Workers))
}

// set says how a partition is to be consumed, and begins with it where it is new.
func (b *balance) set(index int, want partition.Desired) {
	for _, p := range b.partitions {
		if p.index == index {
			if p.desired().Owner != want.Owner {
				b.stats().Moves.Add(1)
			}
			p.set(want)
			return
		}
	}
	p := newPartitionConsumer(b.session, index)
	p.want = want
	b.partitions = append(b.partitions, p)
	b.start(p)
}
