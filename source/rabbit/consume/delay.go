package consume

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/causes"
	"keyfold/engine/cure"
	"keyfold/engine/failpoint"
	"keyfold/engine/terse"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/partition"
)

// The settings that name the delay queues.
const (
	retryDelaySetting cure.Name = "engine.RetryDelay"
	maxRetriesSetting cure.Name = "engine.MaxRetries"
)

// DelayQueues has failed events wait at the broker: a copy in the queue that is
// named by the delay takes the original's place, and comes back to the worker's
// queue, or to the partition that has the user's slot by then, when the delay is over. Waiting so, an event takes no prefetch, and
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
	Stats partition.DelayStats

	publisher *rabbit.Publisher
	names     rabbit.Names
	timing    rabbit.Timing
	log       *slog.Logger
	life      context.Context // ends with Close
	stop      context.CancelFunc
	work      sync.WaitGroup

	mu     sync.Mutex
	queues map[wait]*delayQueue
	closed bool
}

// NewDelayQueues returns retries that connect when there is something to retry,
// on a connection of their own. The queues are those [topology.Setup] declared.
func NewDelayQueues(dsn string, names rabbit.Names, who rabbit.Identity, timing rabbit.Timing, log *slog.Logger) *DelayQueues {
	life, stop := context.WithCancel(context.Background())
	return &DelayQueues{
		publisher: rabbit.NewPublisher(dsn, who, "retries", timing, log),
		names:     names, timing: timing.OrDefaults(), log: log.With("component", "rabbit"),
		life: life, stop: stop,
		queues: map[wait]*delayQueue{},
	}
}

// park takes a message to the queue of its delay. It never blocks: what it
// gathers is unacknowledged, so that prefetch bounds it. After Close it does
// nothing, and the broker delivers the event again.
func (d *DelayQueues) park(t *settler, delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	w := wait{delay, d.names.BySlot(&t.message)}
	q := d.queues[w]
	if q == nil {
		q = d.newQueue(w)
		d.queues[w] = q
		d.work.Go(func() { q.copies.run(d.life) })
	}
	d.Stats.Waiting.Add(1)
	t.session.occupy()
	q.copies.add(pendingCopy{settler: t})
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
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	if !waitUntil(grace, &d.work) {
		return errors.Join(err, errDelayQueuesBusy)
	}
	if err != nil { // a publish that was connecting was in the way
		err = d.publisher.Close(ctx)
	}
	d.Stats.Waiting.Store(0)
	return err
}

// wait is how an event waits.
type wait struct {
	delay  time.Duration
	bySlot bool // through [rabbit.Names.RetryExchange], with the routing key of its slot
}

// delayQueue publishes the copies of one delay. Each delay has its own, so that
// a queue that is missing or without a majority keeps up no other.
type delayQueue struct {
	copies copier
	owner  *DelayQueues
	wait
	name string

	// Only used by the goroutine that publishes.
	pause            backoff.Backoff
	refused, missing terse.Fault
}

const (
	maxDelayed = 512 // in one group
	// maxPublishes is how often an attempt is published before it waits in
	// process: a broker that goes on refusing must not keep events for ever.
	maxPublishes = 5
)

func (d *DelayQueues) newQueue(w wait) *delayQueue {
	name := d.names.RetryQueue(w.delay)
	if w.bySlot {
		name = d.names.RetryExchange(w.delay)
	}
	q := &delayQueue{
		owner: d, wait: w, name: name,
		pause: backoff.Backoff{Min: d.timing.BackoffMin, Max: d.timing.BackoffMax},
	}
	q.copies = copier{target: q, maxGroup: maxDelayed, wake: make(chan struct{}, 1)}
	return q
}

// copyOf returns the copy of an event. One that came by slot keeps its routing key: the
// slot may be another partition's by the time it comes back.
func (q *delayQueue) copyOf(p *pendingCopy) rabbit.Message {
	if q.bySlot {
		return p.copyTo(q.name, p.message.RoutingKey)
	}
	return p.copyTo("", q.name)
}

// publish publishes one copy for all messages of one event in the group. A copy of
// unknown fate is published again, and both come back: were each of them copied
// again, their number would grow with each connection that is lost.
func (q *delayQueue) publish(ctx context.Context, group []pendingCopy) []error {
	type attempt struct {
		id     string
		body   [sha256.Size]byte
		number int
	}
	var messages []rabbit.Message
	positions := make([]int, len(group)) // in messages
	known := map[attempt]int{}
	for i, p := range group {
		m := q.copyOf(&p)
		a := attempt{m.ID, sha256.Sum256(m.Body), p.attempts}
		at, ok := known[a]
		if !ok {
			at = len(messages)
			known[a] = at
			messages = append(messages, m)
		}
		// Each bound says of the event that it was not folded by then: the latest holds.
		if h := messages[at].Headers; h[rabbit.HeaderFirstSeen].(int64) < int64(p.firstSeen) {
			h[rabbit.HeaderFirstSeen] = int64(p.firstSeen)
		}
		positions[i] = at
	}
	answers := q.owner.publisher.Publish(ctx, messages)
	errs := make([]error, len(group))
	for i, at := range positions {
		errs[i] = answers[at]
	}
	return errs
}

func (q *delayQueue) confirmed() error { return failpoint.Hit(failpoint.RetryConfirmed) }

// isMissing reports whether a copy failed because there is no delay queue, or no exchange
// to it.
func isMissing(err error) bool {
	return errors.Is(err, engine.ErrUnroutable) || errors.Is(err, rabbit.ErrNoExchange)
}

func (q *delayQueue) settle(p *pendingCopy, err error) (again bool) {
	stats := &q.owner.Stats
	switch {
	case err == nil:
		p.replaced()
		stats.Replaced.Add(1)
	case errors.Is(err, errStale):
		p.session.stats.Stale.Add(1)
		p.message.Body = nil
	case !isMissing(err) && p.tries+1 < maxPublishes:
		again = true
	default:
		stats.InProcess.Add(1)
		InProcess{}.park(p.settler, q.delay)
	}
	if !again {
		stats.Waiting.Add(-1)
	}
	if p.tries == 0 {
		p.session.release() // a stop waits for the first publication only
	}
	return again
}

// published logs when copies begin to wait, and when that is over, and has the next group wait for longer each
// time a publication fails.
func (q *delayQueue) published(failed int, cause error) (pause time.Duration) {
	d := q.owner
	switch {
	case cause == nil:
		q.pause.Reset()
		for _, fault := range []*terse.Fault{&q.refused, &q.missing} {
			if lasted, was := fault.Ends(); was {
				d.log.Info("retries are stored in their delay queue again", slog.String("queue", q.name), slog.Duration("away_for", lasted))
			}
		}
		return 0
	case !isMissing(cause):
		d.Stats.Failed.Add(1)
		wait := q.pause.Next()
		if q.refused.Begins(cause) {
			d.log.Error("retries not stored in their delay queue: their messages stay unacknowledged",
				slog.String("queue", q.name), slog.Int("messages", failed), slog.Duration("retry_in", wait), slog.Any("error", cause),
				slog.String("hint", causes.Hint(cause, "they are published again by themselves")))
		}
		return wait
	case q.missing.Begins(cause):
		d.log.Error("delay queue missing: retries wait in process and take up prefetch", slog.String("queue", q.name),
			slog.Int("messages", failed), slog.String("hint", fmt.Sprintf("run %s with this worker's %s and %s", d.names.SetupCommand(), retryDelaySetting, maxRetriesSetting)))
	}
	if errors.Is(cause, rabbit.ErrNoExchange) { // each publication costs a connection
		return q.pause.Next()
	}
	return 0
}

var _ Retries = (*DelayQueues)(nil)
