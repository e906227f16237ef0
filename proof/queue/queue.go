// Package queue is a queue of events in memory: the smallest source there is,
// for tests, benchmarks and programs that bring their own events.
package queue

import (
	"cmp"
	"context"
	"sync"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Queue holds events until they are settled. An event that ends as [engine.Retry]
// or [engine.Park] goes to the tail, at once, and keeps the time it was first seen.
type Queue struct {
	mu      sync.Mutex
	changed sync.Cond // waits for ready, open or closed
	ready   []*Message
	open    map[*Message]struct{} // delivered and not settled
	closed  bool
	counts  [engine.Decided + 1]int64
}

// Message is one event in the queue and, at last, what became of it.
type Message struct {
	Event     profile.Event
	Attempts  int
	Verdict   engine.Verdict // of the last attempt
	firstSeen engine.Millis
	queue     *Queue
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	q := &Queue{open: map[*Message]struct{}{}}
	q.changed.L = &q.mu
	return q
}

// Publish appends events to the queue.
func (q *Queue) Publish(events ...profile.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	messages := make([]Message, len(events))
	for i := range events {
		messages[i] = Message{Event: events[i], queue: q}
		q.ready = append(q.ready, &messages[i])
	}
	q.changed.Broadcast()
}

// Close ends [Queue.Run] once every event is settled or held.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// Run hands out events, at most chunk at a time, until the queue is closed and
// all are settled, or until ctx ends or deliver fails: what deliver was given
// then stays unsettled.
func (q *Queue) Run(ctx context.Context, chunk int, deliver func(context.Context, []profile.Delivery) error) error {
	stop := context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
	defer stop()
	for {
		deliveries, err := q.next(ctx, chunk)
		if deliveries == nil || err != nil {
			return err
		}
		if err := deliver(ctx, deliveries); err != nil {
			return err
		}
	}
}

// next waits for events and marks them as open; nil means the end.
func (q *Queue) next(ctx context.Context, chunk int) ([]profile.Delivery, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.ready) == 0 && ctx.Err() == nil && (!q.closed || len(q.open) > 0) {
		q.changed.Wait()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := min(chunk, len(q.ready))
	if n == 0 {
		return nil, nil
	}
	deliveries := make([]profile.Delivery, n)
	for i, m := range q.ready[:n] {
		q.open[m] = struct{}{}
		m.Attempts++
		deliveries[i] = profile.Delivery{Event: m.Event, FirstSeen: m.firstSeen, Settler: m}
	}
	q.ready = q.ready[n:]
	return deliveries, nil
}

// Settle takes the verdict on one delivery. It panics on a second one: that
// would be the engine's fault, and a broker would close the channel for it.
func (m *Message) Settle(v engine.Verdict) {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.open[m]; !ok {
		panic("memory: " + m.Event.MessageID + " was settled twice")
	}
	delete(q.open, m)
	q.counts[v.Outcome]++
	m.Verdict = v
	if s := v.Outcome.Settlement(); s == engine.RetryLater || s == engine.ParkLater {
		m.firstSeen = cmp.Or(max(v.AbsentAt, m.firstSeen), engine.Now())
		q.ready = append(q.ready, m)
	}
	if len(q.open) == 0 || len(q.ready) > 0 {
		q.changed.Broadcast()
	}
}

// Count returns how many deliveries ended with an outcome.
func (q *Queue) Count(o engine.Outcome) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[o]
}
