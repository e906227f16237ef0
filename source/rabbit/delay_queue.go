package rabbit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/failpoint"
)

const (
	delayTimeout = 30 * time.Second // of one group's confirms
	maxDelayed   = 512              // in one group
	// maxPublishes is how often an attempt is published before it waits in
	// process: a broker that goes on refusing must not keep events for ever.
	maxPublishes = 5
	// missingEvery is how often a missing queue is logged.
	missingEvery = time.Minute
)

// parked is an attempt whose copy is to be published.
type parked struct {
	Attempt
	publishes int // that failed; a stop waits for the first one only
}

// release ends the waiting of a stop for this attempt.
func (p *parked) release() {
	if p.publishes == 0 {
		p.settler.session.release()
	}
}

// delayQueue publishes the copies of one delay. Each delay has its own, so that
// a queue that is missing or without a majority keeps up no other. Its goroutine
// lives while something waits: what is parked during one round trip shares the
// next.
type delayQueue struct {
	owner *DelayQueues
	name  string

	// Guarded by the owner's mu.
	waiting []parked
	running bool

	// Only used by run.
	pause backoff.Backoff
	told  time.Time // when the missing queue was last logged
}

// take returns the next group; none ends run.
func (q *delayQueue) take() []parked {
	q.owner.mu.Lock()
	defer q.owner.mu.Unlock()
	n := min(len(q.waiting), maxDelayed)
	if n == 0 {
		q.waiting, q.running = nil, false
		return nil
	}
	group := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return group
}

// putBack has attempts published again.
func (q *delayQueue) putBack(group []parked) {
	q.owner.mu.Lock()
	defer q.owner.mu.Unlock()
	q.waiting = append(q.waiting, group...)
}

// run publishes until nothing waits or the owner is closed.
func (q *delayQueue) run() {
	for {
		group := q.take()
		if len(group) == 0 {
			return
		}
		group = q.live(group)
		failed := q.publish(group)
		if failed == nil {
			q.pause.Reset()
			continue
		}
		if !backoff.Sleep(q.owner.life, q.pause.Next()) {
			return
		}
	}
}

// live forgets the attempts whose session has ended: the broker has delivered
// them again, and a copy would be one too many.
func (q *delayQueue) live(group []parked) []parked {
	live := group[:0]
	for i := range group {
		p := &group[i]
		if p.settler.session.over() {
			p.settler.session.consumer.Stats.Stale.Add(1)
			p.release()
			continue
		}
		live = append(live, *p)
	}
	q.owner.Stats.Waiting.Add(-int64(len(group) - len(live)))
	return live
}

// publish publishes a group's copies, settles what the answers settle, puts back
// what is to be tried again, and returns the last failure.
func (q *delayQueue) publish(group []parked) error {
	if len(group) == 0 {
		return nil
	}
	messages := make([]Message, len(group))
	for i := range group {
		messages[i] = group[i].copyTo(q.name)
	}
	ctx, cancel := context.WithTimeout(q.owner.life, delayTimeout)
	defer cancel()
	var failed error
	again, missing := group[:0], 0
	for i, err := range q.owner.publisher.Publish(ctx, messages) {
		p := group[i]
		if err == nil {
			err = failpoint.Hit(failpoint.RetryConfirmed)
		}
		switch {
		case err == nil:
			p.Replaced()
			p.release()
			q.owner.Stats.Replaced.Add(1)
			q.owner.Stats.Waiting.Add(-1)
		case errors.Is(err, engine.ErrUnroutable):
			missing++
			q.waitInProcess(p)
		default:
			failed = err
			p.release()
			if p.publishes++; p.publishes == maxPublishes {
				q.waitInProcess(p)
			} else {
				again = append(again, p)
			}
		}
	}
	q.putBack(again)
	q.tell(len(again), missing, failed)
	return failed
}

// waitInProcess gives an attempt the delay it was to have at the broker.
func (q *delayQueue) waitInProcess(p parked) {
	q.owner.Stats.InProcess.Add(1)
	q.owner.Stats.Waiting.Add(-1)
	InProcess{}.Park(p.Attempt)
	p.release()
}

func (q *delayQueue) tell(again, missing int, failed error) {
	d := q.owner
	if missing > 0 && time.Since(q.told) >= missingEvery {
		q.told = time.Now()
		d.log.Error("the delay queue is missing; retries wait in process and take up prefetch: "+
			"run `keyfold setup` with this worker's WORKER_RETRY_DELAY and WORKER_MAX_RETRIES",
			slog.String("queue", q.name), slog.Int("messages", missing))
	}
	if failed != nil && d.life.Err() == nil {
		d.Stats.Failed.Add(1)
		d.log.Error("retries not stored in their delay queue; their messages stay unacknowledged and are tried again",
			slog.String("queue", q.name), slog.Int("messages", again), slog.Any("error", failed))
	}
}
