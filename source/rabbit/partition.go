package rabbit

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// partition is a worker's consumer at one partition queue. All workers consume all of
// them: the broker delivers to the one with the highest priority, the owner, and to the
// next in line when that is gone. It hands a partition over only once what the worker
// before holds is acknowledged, so that one worker at a time has a user's events.
type partition struct {
	session *session
	index   int

	mu     sync.Mutex
	want   wish          // guarded by mu
	wanted chan struct{} // signalled when want is to be looked at

	// Only used by the goroutine of run, but for looks at the channel's counters.
	channel  atomic.Pointer[consumerChannel]
	have     wish
	replaced uint64 // the last delivery tag before the consumer was replaced

	slots      atomic.Uint64 // whose events came, a bit for each
	subscribed atomic.Bool

	acked int64 // of the channel, at the last look for windows to close
}

// wish is how a worker is to consume a partition.
type wish struct {
	owner    bool
	priority int // of the consumer
	prefetch int
}

// meets reports whether a consumer may stay as it is. Between two owners the order of
// their priorities decides nothing for long.
func (w wish) meets(other wish) bool {
	return w.owner == other.owner && w.prefetch == other.prefetch && (w.owner || w.priority == other.priority)
}

func (w wish) arguments() amqp.Table {
	return amqp.Table{"x-priority": int32(w.priority)}
}

func newPartition(s *session, index int) *partition {
	return &partition{session: s, index: index, wanted: make(chan struct{}, 1)}
}

// set says how the partition is to be consumed.
func (p *partition) set(want wish) {
	p.mu.Lock()
	p.want = want
	p.mu.Unlock()
	signal(p.wanted)
}

func (p *partition) wish() wish {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.want
}

// note counts a message, and keeps the slot it came by.
func (p *partition) note(routingKey string) {
	p.session.stats.Partitions.Events[p.index].Add(1)
	bits := ^uint64(0) // a message that was published to the queue itself may be of any slot
	if slot, err := strconv.Atoi(routingKey); err == nil && slot >= 0 && slot < engine.Slots {
		bits = 1 << slot
	}
	if p.slots.Load()&bits != bits {
		p.slots.Or(bits)
	}
}

// closeWindows closes the windows of the users whose events came from the partition.
func (p *partition) closeWindows() {
	if slots, closing := p.slots.Load(), p.session.closing; closing != nil && slots != 0 {
		closing(func(slot int) bool { return slots>>slot&1 == 1 })
	}
}

// run consumes the partition until ctx or the session ends. While the consumer is paused
// nothing is read and nothing moves: a partition whose consumer were cancelled would go
// to another worker with its events held here.
func (p *partition) run(ctx context.Context, chunk Chunk) error {
	s := p.session
	for {
		shut, changed := s.gate.state()
		if shut {
			select {
			case <-changed:
				continue
			case <-s.ended:
				return s.reason
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := p.follow(ctx); err != nil {
			return err
		}
		if err := p.channel.Load().read(ctx, changed, chunk); !errors.Is(err, errPaused) {
			return err
		}
	}
}

// follow makes the consumer what it is to be.
func (p *partition) follow(ctx context.Context) error {
	want, l := p.wish(), p.channel.Load()
	switch {
	case l == nil:
		return p.subscribe(ctx, want)
	case p.have.meets(want):
		return nil
	case !want.owner && (p.have.owner || l.unacked.Load() > 0): // also one that stood in
		return p.stepDown(ctx)
	case l.next.tag != "", l.acks.below.Load() < p.replaced && int(l.unacked.Load()) > want.prefetch/4:
		return nil // much of the last change is still here; this one is asked for again
	}
	// Up in the line, or another prefetch. What is held already comes on top of it, for as
	// long as windows take.
	p.replaced = l.last
	p.have = want
	return l.replace(ctx, want.prefetch, want.arguments())
}

func (p *partition) subscribe(ctx context.Context, want wish) error {
	s := p.session
	l, err := s.openChannel(p.index, s.config.Names.PartitionQueue(p.index), want.prefetch)
	if err != nil {
		return Fault("open a channel", err)
	}
	l.partition = p
	l.follow()
	p.have, p.replaced = want, 0
	p.channel.Store(l)
	if l.main, err = l.consume(ctx, want.prefetch, want.arguments()); err != nil {
		return err
	}
	s.stats.Partitions.Known[p.index].Store(true)
	p.subscribed.Store(true)
	return nil
}

const (
	// handOverLooks is for how many looks a worker keeps a partition that is no longer its
	// own to have its events written, 10 s. What is not written by then is delivered to
	// the new owner too.
	handOverLooks = 10
	// handOverPause is how often it looks whether they are.
	handOverPause = 20 * time.Millisecond
)

// stepDown gives the partition to its new owner: nothing more is read, the windows are
// written and acknowledged, and then the channel is closed, so that what it has not read
// is the broker's again. A new channel joins the line behind the owner.
func (p *partition) stepDown(ctx context.Context) error {
	s, l := p.session, p.channel.Load()
	limit := handOverLooks * s.config.Timing.Look
	p.closeWindows() // and again by relieve: searches join them when they have their vectors
	for end := time.Now().Add(limit); l.unacked.Load() > 0 && time.Now().Before(end); {
		if shut, _ := s.gate.state(); shut {
			end = time.Now().Add(limit)
		}
		select {
		case <-time.After(handOverPause):
		case <-s.ended:
			return s.reason
		case <-ctx.Done():
			return ctx.Err()
		}
		if p.wish().owner {
			return nil
		}
	}
	p.slots.Store(0)
	l.leave(ctx)
	return p.subscribe(ctx, p.wish())
}

// relieve closes windows that wait for what the partition's prefetch keeps out, and those
// of a partition that this worker only stands in for.
func (p *partition) relieve(standIns bool) {
	l := p.channel.Load()
	if l == nil {
		return
	}
	unacked, acked := int(l.unacked.Load()), l.ackedTotal.Load()
	want := p.wish()
	stuck := unacked >= want.prefetch-want.prefetch/8 && acked == p.acked
	p.acked = acked
	if stuck || standIns && unacked > 0 && !want.owner {
		p.closeWindows()
	}
}
