package inbox

import (
	"cmp"
	"container/heap"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// retries are the deliveries that wait for another attempt. Guarded by
// Inbox.mu, but for wake.
type retries struct {
	waiting dueHeap
	wake    chan struct{} // holds a token where waiting may have a new head
	stopped bool
	cancel  context.CancelFunc // nil before Start
	running sync.WaitGroup
}

type due struct {
	at    time.Time
	entry *entry
}

// dueHeap has the earliest in front.
type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = due{}
	*h = (*h)[:last]
	return d
}

// Start begins to redeliver what is settled with Retry. It is called once.
func (in *Inbox) Start(deliver profile.Deliver) {
	ctx, cancel := context.WithCancel(context.Background())
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.retry.stopped {
		cancel()
		return
	}
	in.retry.cancel = cancel
	in.retry.running.Go(func() { in.redeliver(ctx, deliver) })
}

// Stop ends the redelivery and waits for its goroutine. What waits for a retry
// stays pending in the file, and so does an event that is settled with Retry from
// now on; other verdicts are written as before. It may be called again.
func (in *Inbox) Stop() {
	in.mu.Lock()
	in.retry.stopped = true
	if in.retry.cancel != nil {
		in.retry.cancel()
	}
	for _, d := range in.retry.waiting {
		in.release(d.entry)
	}
	in.retry.waiting = nil
	in.mu.Unlock()
	in.retry.running.Wait()
}

// again plans the next attempt; false where none is left. Once stopped, the
// event waits in the file instead, with all its attempts.
func (in *Inbox) again(e *entry, absentAt engine.Millis) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.retry.stopped {
		in.release(e)
		return true
	}
	if e.retries >= in.config.MaxRetries {
		return false
	}
	delay := in.config.delay(e.retries)
	e.retries++
	in.stats.Retried++
	in.plan(e, absentAt, delay)
	return true
}

// park plans the next attempt without counting one: what e needs is away.
func (in *Inbox) park(e *entry, absentAt engine.Millis) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.plan(e, absentAt, MaxRetryDelay)
}

// plan makes e due after delay. The caller holds mu.
func (in *Inbox) plan(e *entry, absentAt engine.Millis, delay time.Duration) {
	if in.retry.stopped {
		in.release(e)
		return
	}
	e.first = max(absentAt, e.first)
	heap.Push(&in.retry.waiting, due{time.Now().Add(delay), e})
	select {
	case in.retry.wake <- struct{}{}:
	default:
	}
}

// redeliver runs until ctx ends.
func (in *Inbox) redeliver(ctx context.Context, deliver profile.Deliver) {
	timer := time.NewTimer(MaxRetryDelay)
	defer timer.Stop()
	for ctx.Err() == nil {
		entries, wait := in.takeDue(time.Now())
		if len(entries) > 0 {
			in.deliverAgain(ctx, deliver, entries)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-in.retry.wake:
		case <-ctx.Done():
		}
	}
}

// takeDue returns what is due, by arrival, and otherwise how long to wait.
func (in *Inbox) takeDue(now time.Time) ([]*entry, time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	var entries []*entry
	h := &in.retry.waiting
	for h.Len() > 0 && !(*h)[0].at.After(now) {
		entries = append(entries, heap.Pop(h).(due).entry)
	}
	slices.SortFunc(entries, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
	if h.Len() == 0 {
		return entries, MaxRetryDelay // wake comes earlier
	}
	return entries, (*h)[0].at.Sub(now)
}

func (in *Inbox) deliverAgain(ctx context.Context, deliver profile.Deliver, entries []*entry) {
	deliveries := make([]profile.Delivery, len(entries))
	for i, e := range entries {
		deliveries[i] = e.delivery(e.first)
	}
	err := deliver(ctx, deliveries)
	if err == nil {
		return
	}
	if ctx.Err() == nil {
		in.ports.Log.Warn("retries not delivered",
			slog.Int("events", len(entries)), slog.Duration("retry_in", in.config.RetryDelay), slog.Any("error", err),
			slog.String("hint", "check free space and permissions of the database file"))
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, e := range entries {
		in.plan(e, 0, in.config.RetryDelay)
	}
}
