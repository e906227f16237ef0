package partitioner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/profile"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

// chunk holds the messages that one channel brought until their copies are confirmed.
type chunk struct {
	stage   *Partitioner
	pending []pending
	waits   backoff.Backoff
}

// pending is a message whose copy is to be published.
type pending struct {
	slot    int
	copy    rabbit.Message
	arrived time.Time
	settler engine.Settler
	back    bool // no queue took its copy: see [cameBack]
}

// cameBack reports whether a message in the common queue was published by slot already.
// While setup gives its slot another queue the broker puts it there, and where that setup
// was killed, again and again.
func cameBack(names rabbit.Names, o *rabbit.Original) bool {
	return o.Exchange == names.Slots && o.Headers[rabbit.HeaderExchange] != nil
}

// chunks makes the chunk of a channel.
func (p *Partitioner) chunks() consume.Chunk {
	return &chunk{stage: p, waits: backoff.Backoff{Min: p.config.WaitMin, Max: p.config.WaitMax}}
}

// Add refuses what a worker would refuse.
func (c *chunk) Add(o *rabbit.Original, a consume.Arrival) error {
	e, err := profile.ParseEvent(o.Body, a.Arrived)
	if err != nil {
		return err
	}
	names := c.stage.config.Names
	p := pending{
		slot: engine.SlotOf(e.UserID), copy: copyOf(names, o, a, &e), arrived: a.Arrived, settler: a.Settler, back: cameBack(names, o),
	}
	p.copy.Until = a.Arrived.Add(c.stage.config.Lease)
	if follow := c.stage.config.Follow; follow != nil {
		var next *engine.Trace
		next, p.settler = follow(a.Trace, p.copy.ID, p.settler)
		for name, value := range next.Headers() {
			p.copy.Headers[name] = value
		}
	}
	c.pending = append(c.pending, p)
	return nil
}

func (c *chunk) Len() int { return len(c.pending) }

// HandOver returns once all copies are confirmed, ctx has ended, or the lease of a
// message is over: then the broker delivers again what is left. It returns no error,
// since a fault of the broker or of the queues is tried again for as long as it lasts:
// no attempt of an event is used.
func (c *chunk) HandOver(ctx context.Context) error {
	defer func() {
		clear(c.pending)
		c.pending = c.pending[:0]
	}()
	left := c.pending
	returned := c.awaitPartition(ctx)
	for !late(left) {
		errs := c.stage.publish(ctx, left)
		if left = settle(left, errs); len(left) == 0 {
			if !returned {
				c.waits.Reset()
				c.stage.outage.ends(c.stage.log)
			}
			return nil
		}
		if !backoff.Sleep(ctx, c.stage.failed(ctx, errs, c.waits.Next())) {
			break
		}
	}
	cause := cmp.Or(ctx.Err(), errLate)
	for _, p := range left {
		p.settler.Settle(engine.Verdict{Outcome: engine.Unsettled, Err: cause})
	}
	return nil
}

// errLate leaves messages to the broker. Another stage may have published them meanwhile,
// and profiles keep the ids of that time for some leases only.
var errLate = errors.New("a message was not published within its lease")

// late reports whether the lease of a message is over. The session ends with the lease,
// so that all others go back to the broker too.
func late(all []pending) bool {
	now := time.Now()
	return slices.ContainsFunc(all, func(p pending) bool { return p.copy.Late(now) })
}

// awaitPartition waits, longer each time, where messages came back: their copies would come
// back again. It reports whether there are such.
func (c *chunk) awaitPartition(ctx context.Context) bool {
	var errs []error
	for i := range c.pending {
		if c.pending[i].back {
			c.stage.Stats.count(engine.ErrUnroutable)
			errs = append(errs, named(engine.ErrUnroutable, &c.pending[i].copy, false))
		}
	}
	if len(errs) == 0 {
		return false
	}
	backoff.Sleep(ctx, c.stage.failed(ctx, errs, c.waits.Next()))
	return true
}

// settle acknowledges the messages whose copies are confirmed, and returns those that
// are to be published again. A message behind one of its slot that was not confirmed is
// among them, so that the last copies of a slot's messages are in the order of the
// messages.
//
// The first copies are not in that order where the broker refused or returned one and
// took those behind it: they are in the queue before it, and once more behind it. A
// profile of the history "mass" does not depend on the order. Keeping it would take a
// wait for each confirm before the next message of the slot is published.
//
// What may have reached a queue says so from then on: its next copy may be the second
// one. Nothing was folded before its arrival.
func settle(all []pending, errs []error) (left []pending) {
	var held [engine.Slots]bool
	left = all[:0]
	for i, p := range all {
		if errs[i] == nil && !held[p.slot] {
			p.settler.Settle(engine.Verdict{Outcome: engine.Decided})
			continue
		}
		held[p.slot] = true
		if _, bounded := p.copy.Headers[rabbit.HeaderFirstSeen]; !bounded && mayBeStored(errs[i]) {
			p.copy.Headers[rabbit.HeaderFirstSeen] = int64(engine.MillisOf(p.arrived))
		}
		left = append(left, p)
	}
	return left
}

// grace is how long copies on their way may take to be confirmed once the stage is told
// to stop or its session has ended.
const grace = 3 * time.Second

// bounded returns a context for one publication.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return work, func() {
		stop()
		cancel()
	}
}
