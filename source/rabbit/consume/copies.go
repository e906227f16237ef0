package consume

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
)

// copyTimeout bounds the confirms of one group.
const copyTimeout = 30 * time.Second

// pendingCopy is an unacknowledged message whose copy is to be published.
type pendingCopy struct {
	*settler
	tries int // publications that failed

	// Of a dead letter.
	reason  string
	subject Subject // of the letter; set when it was published

	// Set where a copy that failed goes out alone.
	due   time.Time // no sooner
	pause backoff.Backoff
}

// errStale is the answer for a message whose session has ended before its copy
// was published: the broker delivers the message again, and a copy would be one
// too many.
var errStale = errors.New("rabbitmq: the session has ended")

// copyTarget is where copies go.
type copyTarget interface {
	// publish returns an answer for each copy: nil once the broker has confirmed
	// it, so that its original can be acknowledged.
	publish(ctx context.Context, group []pendingCopy) []error
	// confirmed passes the failpoint of a confirmed copy.
	confirmed() error
	// settle settles the original by the answer, which may be [errStale], and
	// reports whether the copy is to be published again.
	settle(p *pendingCopy, err error) (again bool)
	// published is told after a group how many of its copies failed, and why: one
	// failure, of a missing queue only where there is no other. It returns how long
	// the next group has to wait.
	published(failed int, cause error) (pause time.Duration)
}

// copier has confirmed copies take the place of originals, one group at a time.
// It keeps each original unacknowledged until its copy is confirmed, so that a
// second copy is possible and a loss is not. Prefetch bounds what waits here.
type copier struct {
	target   copyTarget
	maxGroup int
	maxBytes int // of bodies in one group, which has one at least; 0: no bound
	// alone: a copy that the broker refuses by closing the channel takes with it
	// those behind it. So copies that failed go out one by one, each at its own
	// pace within these bounds, and new ones in groups in between.
	alone              bool
	pauseMin, pauseMax time.Duration

	wake chan struct{} // signalled by add

	mu      sync.Mutex
	waiting []pendingCopy
	failed  []pendingCopy // those that go out alone
	single  bool          // the next one is of failed, where one is due
	failing int           // copies that failed, also while on the way again
	cause   error         // of the last failure; nil while failing is 0
}

// add queues a copy. It never blocks.
func (c *copier) add(p pendingCopy) {
	c.mu.Lock()
	c.waiting = append(c.waiting, p)
	c.mu.Unlock()
	signal(c.wake)
}

// run publishes copies until ctx ends.
func (c *copier) run(ctx context.Context) {
	for ctx.Err() == nil {
		group, wait := c.take(time.Now())
		if len(group) > 0 {
			backoff.Sleep(ctx, c.send(ctx, group))
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-c.wake:
		case <-due:
		case <-ctx.Done():
		}
	}
}

// take returns the next group, or how long to wait for one; 0: until add.
func (c *copier) take(now time.Time) (group []pendingCopy, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.single = !c.single
	if c.single || len(c.waiting) == 0 {
		for i, p := range c.failed {
			left := p.due.Sub(now)
			if left <= 0 {
				c.failed = slices.Delete(c.failed, i, i+1)
				return []pendingCopy{p}, 0
			}
			if wait == 0 || left < wait {
				wait = left
			}
		}
	}
	n, size := 0, 0
	for n < min(len(c.waiting), c.maxGroup) {
		size += len(c.waiting[n].message.Body)
		if n > 0 && c.maxBytes > 0 && size > c.maxBytes {
			break
		}
		n++
	}
	group = c.waiting[:n:n]
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil // its array would keep what was sent
	}
	return group, wait
}

// send publishes a group and settles its originals. Those whose copies failed
// stay unacknowledged. It returns how long to wait before the next group.
func (c *copier) send(ctx context.Context, group []pendingCopy) (pause time.Duration) {
	group = c.live(group)
	if len(group) == 0 {
		return 0
	}
	publishing, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	again, failed, cause := group[:0], 0, error(nil)
	for i, err := range c.target.publish(publishing, group) {
		if err == nil {
			err = c.target.confirmed()
		}
		if err != nil {
			failed++
			if cause == nil || errors.Is(cause, engine.ErrUnroutable) {
				cause = err // a missing queue is known at once; what else failed needs a pause
			}
		}
		if p := group[i]; c.settle(&p, err) {
			again = append(again, p)
		}
	}
	c.putBack(again)
	if ctx.Err() != nil {
		return 0
	}
	return c.target.published(failed, cause)
}

// live settles the originals whose session has ended, and returns the others.
func (c *copier) live(group []pendingCopy) []pendingCopy {
	live := group[:0]
	for _, p := range group {
		if p.session.over() {
			c.settle(&p, errStale)
		} else {
			live = append(live, p)
		}
	}
	return live
}

// settle settles an original, and counts the copies that failed so far.
func (c *copier) settle(p *pendingCopy, err error) (again bool) {
	again = c.target.settle(p, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if again {
		c.cause = err
		if p.tries++; p.tries == 1 {
			c.failing++
		}
	} else if p.tries > 0 {
		if c.failing--; c.failing == 0 {
			c.cause = nil
		}
	}
	return again
}

// unconfirmed returns how many copies failed so far and are to be published again,
// and the last failure.
func (c *copier) unconfirmed() (n int, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failing, c.cause
}

// putBack has copies published again.
func (c *copier) putBack(again []pendingCopy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.alone {
		c.waiting = append(c.waiting, again...)
		return
	}
	for _, p := range again {
		p.due = time.Now()
		if p.tries == 1 {
			// Perhaps another copy was refused: the next publication is at once.
			p.pause = backoff.Backoff{Min: c.pauseMin, Max: c.pauseMax}
		} else {
			p.due = p.due.Add(p.pause.Next())
		}
		c.failed = append(c.failed, p)
	}
}
