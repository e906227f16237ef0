package rabbit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"keyfold/engine/backoff"
)

// DelayQueues has failed events wait at the broker: a copy in the queue that is
// named by the delay takes the original's place, and comes back to the worker's
// queue when the delay is over. Waiting so, an event takes no prefetch, and
// neither a restart of the worker nor one of the broker forgets its attempts.
//
// The original is acknowledged once the broker has confirmed the copy, never
// before. Until then it stays unacknowledged: a copy that was refused, or whose
// fate is unknown, is published again, so that a second copy is possible and a
// loss is not. A profile's ids absorb the second one. Rejected: a transaction
// over publish and acknowledgement, since the two are on different connections.
//
// Where the queue is missing, or the broker does not take copies although it
// delivers, events wait in process instead: see [InProcess].
type DelayQueues struct {
	Stats DelayStats

	publisher *Publisher
	names     Names
	timing    Timing
	log       *slog.Logger
	life      context.Context // ends with Close
	stop      context.CancelFunc
	work      sync.WaitGroup

	mu     sync.Mutex
	queues map[time.Duration]*delayQueue
	closed bool
}

// NewDelayQueues returns retries that connect when there is something to retry,
// on a connection of their own. The queues are those [Setup] declared.
func NewDelayQueues(dsn string, names Names, who Identity, timing Timing, log *slog.Logger) *DelayQueues {
	life, stop := context.WithCancel(context.Background())
	return &DelayQueues{
		publisher: NewPublisher(dsn, who, "retries", timing, log),
		names:     names, timing: timing.orDefaults(), log: log,
		life: life, stop: stop,
		queues: map[time.Duration]*delayQueue{},
	}
}

// Park takes an attempt to the queue of its delay. It never blocks: what it
// gathers is unacknowledged, so that prefetch bounds it. After Close it does
// nothing, and the broker delivers the event again.
func (d *DelayQueues) Park(a Attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	q := d.queues[a.Delay]
	if q == nil {
		q = &delayQueue{
			owner: d, name: d.names.RetryQueue(a.Delay),
			pause: backoff.Backoff{Min: d.timing.BackoffMin, Max: d.timing.BackoffMax},
		}
		d.queues[a.Delay] = q
	}
	d.Stats.Waiting.Add(1)
	a.settler.session.occupy()
	q.waiting = append(q.waiting, parked{Attempt: a})
	if !q.running {
		q.running = true
		d.work.Go(q.run)
	}
}

var errDelayQueuesBusy = errors.New("rabbitmq: retries were still being published; the broker delivers them again")

// Close stops publishing and ends the connection, by force when ctx ends; it
// takes at most a second longer. Attempts that were not confirmed stay
// unacknowledged. It is called after [Consumer.Close], which waits for those on
// their way.
func (d *DelayQueues) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	// A publish may be stuck in a socket that the broker does not read: this closes it.
	err := d.publisher.Close(ctx)
	ended := make(chan struct{})
	go func() {
		d.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeGrace):
		return errors.Join(err, errDelayQueuesBusy)
	}
	if err != nil { // a publish that was connecting was in the way
		err = d.publisher.Close(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		for i := range q.waiting {
			q.waiting[i].release()
		}
		d.Stats.Waiting.Add(-int64(len(q.waiting)))
		q.waiting = nil
	}
	return err
}

var _ Retries = (*DelayQueues)(nil)
