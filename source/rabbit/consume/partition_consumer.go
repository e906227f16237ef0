package consume

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/partition"
)

// partitionConsumer is a worker's consumer at one partition queue. All workers consume all of
// them: the broker delivers to the one with the highest priority, the owner, and to the
// next in line when that is gone. It hands a partition over only once what the worker
// before holds is acknowledged, so that one worker at a time has a user's events.
type partitionConsumer struct {
	session *session
	index   int

	mu     sync.Mutex
	want   partition.Desired // guarded by mu
	wanted chan struct{}     // signalled when want has changed

	// Only used by the goroutine of run, but for readings of the channel's counters.
	channel      atomic.Pointer[consumerChannel]
	have         partition.Desired
	previousTags uint64 // the last delivery tag of the consumer before this one, as far as it is read

	slots      atomic.Uint64 // whose events came, a bit for each
	subscribed atomic.Bool
	overdue    atomic.Bool // another worker's, and kept for too long: see relieve

	// Only used by the balance.
	acked int64  // of the channel, at the last poll for windows to close
	below uint64 // the tag up to which all was acknowledged, at the last poll of the workers
	polls int    // of the workers, in a row, that found the same one
}

func newPartitionConsumer(s *session, index int) *partitionConsumer {
	return &partitionConsumer{session: s, index: index, wanted: make(chan struct{}, 1)}
}

// set says how the partition is to be consumed.
func (p *partitionConsumer) set(want partition.Desired) {
	p.mu.Lock()
	p.want = want
	p.mu.Unlock()
	signal(p.wanted)
}

func (p *partitionConsumer) desired() partition.Desired {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.want
}

// note counts a message, and keeps the slot it came by.
func (p *partitionConsumer) note(routingKey string) {
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
func (p *partitionConsumer) closeWindows() {
	if slots, closing := p.slots.Load(), p.session.closing; closing != nil && slots != 0 {
		closing(func(slot int) bool { return slots>>slot&1 == 1 })
	}
}

// run consumes the partition until ctx or the session ends. While the consumer is paused
// nothing is read and nothing moves: a partition whose consumer were cancelled would go
// to another worker with its events held here.
func (p *partitionConsumer) run(ctx context.Context, chunk Chunk) error {
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
func (p *partitionConsumer) follow(ctx context.Context) error {
	want, l, overdue := p.desired(), p.channel.Load(), p.overdue.Swap(false)
	switch {
	case l == nil:
		return p.subscribe(ctx, want)
	case overdue && !want.Owner:
		return p.handOver(ctx)
	case p.have.Satisfies(want):
		return nil
	case !want.Owner && (p.have.Owner || l.unacked.Load() > 0): // also one that stood in
		return p.stepDown(ctx)
	case l.next.tag != "", l.acks.below.Load() < p.previousTags && int(l.unacked.Load()) > want.Prefetch/4:
		return nil // much of the last change is still here; this one is asked for again
	}
	// Up in the line, or another prefetch. What is held already comes on top of it, for as
	// long as windows take.
	p.previousTags = l.last
	p.have = want
	l.inForce.Store(int64(want.InForce()))
	return l.replace(ctx, want.Prefetch, want.Arguments())
}

func (p *partitionConsumer) subscribe(ctx context.Context, want partition.Desired) error {
	s := p.session
	l, err := s.openChannel(p.index, s.config.Names.PartitionQueue(p.index), want.Prefetch)
	if err != nil {
		return rabbit.Fault("open a channel", err)
	}
	l.partition, l.change = p, p.wanted
	l.follow()
	p.have, p.previousTags = want, 0
	p.overdue.Store(false) // of the channel before
	p.channel.Store(l)
	if l.main, err = l.consume(ctx, want.Prefetch, want.Arguments()); err != nil {
		return err
	}
	l.inForce.Store(int64(want.InForce()))
	s.stats.Partitions.Known[p.index].Store(true)
	p.subscribed.Store(true)
	return nil
}

const (
	// handOverPolls is for how many polls a worker keeps a partition that is another's to
	// have its events written, 10 s. What is not written by then is delivered to the owner
	// too.
	handOverPolls = 10
	// handOverPause is how often it checks whether they are.
	handOverPause = 20 * time.Millisecond
)

// stepDown gives the partition to its new owner: nothing more is read, the windows are
// written and acknowledged, and then the channel is closed, so that what it has not read
// is the broker's again. A new channel joins the line behind the owner.
func (p *partitionConsumer) stepDown(ctx context.Context) error {
	s, l := p.session, p.channel.Load()
	limit := handOverPolls * s.config.Timing.Poll
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
		if p.desired().Owner {
			return nil
		}
	}
	return p.handOver(ctx)
}

// handOver closes the channel, and joins the line with a new one.
func (p *partitionConsumer) handOver(ctx context.Context) error {
	p.slots.Store(0)
	p.channel.Load().leave(ctx)
	return p.subscribe(ctx, p.desired())
}

// relieve closes windows that wait for what the partition's prefetch keeps out. At each
// poll of the workers it also closes those of a partition that this worker only stands in
// for, and gives up one of whose messages the oldest stays unacknowledged for too long:
// the broker hands it to its owner only once the last is acknowledged.
func (p *partitionConsumer) relieve(workers bool) {
	l := p.channel.Load()
	if l == nil {
		return
	}
	unacked, acked := int(l.unacked.Load()), l.ackedTotal.Load()
	want := p.desired()
	stuck := unacked >= want.Prefetch-want.Prefetch/8 && acked == p.acked
	p.acked = acked
	standsIn := workers && unacked > 0 && !want.Owner
	if stuck || standsIn {
		p.closeWindows()
	}
	if !workers {
		return
	}
	if below := l.acks.below.Load(); !standsIn || below != p.below {
		p.below, p.polls = below, 0
	}
	if p.polls++; standsIn && p.polls > handOverPolls {
		p.polls = 0
		p.overdue.Store(true)
		signal(p.wanted)
	}
}
