package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/source/rabbit"
)

// feed publishes messages at a rate, as the outbox's relay does: what was not
// confirmed is published again, however often that is. Twice is fine, and never
// is not.
type feed struct {
	publisher *rabbit.Publisher
	messages  []rabbit.Message
	rate      int // per second
	ledger    *ledger
	again     atomic.Int64                                  // messages that were published once more
	confirmed func(burst []rabbit.Message, began time.Time) // nil: not told

	turn sync.Mutex // held while publishing, and while the feed is paused
	next int
}

const maxBurst = 400

// run publishes until ctx ends or nothing is left. What an outage kept back is
// caught up on in bursts.
func (f *feed) run(ctx context.Context) error {
	began := time.Now()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		due := int(time.Since(began).Seconds() * float64(f.rate))
		if err := f.publish(ctx, due-f.next); err != nil {
			return err
		}
	}
}

// publish sends the next n messages and returns when each is confirmed. ctx ends
// it between two tries only if nothing is in doubt.
func (f *feed) publish(ctx context.Context, n int) error {
	f.turn.Lock()
	defer f.turn.Unlock()
	n = min(n, maxBurst, len(f.messages)-f.next)
	if n <= 0 {
		return nil
	}
	burst := f.messages[f.next : f.next+n]
	f.next += n
	began := time.Now()
	for left := burst; len(left) > 0; {
		trying, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		var failed []rabbit.Message
		for i, err := range f.publisher.Publish(trying, left) {
			if err != nil {
				failed = append(failed, left[i])
			}
		}
		cancel()
		if left = failed; len(left) > 0 {
			f.again.Add(int64(len(left)))
			time.Sleep(100 * time.Millisecond)
		}
	}
	for i := range burst {
		if err := f.ledger.add(&burst[i]); err != nil {
			return err
		}
	}
	if f.confirmed != nil {
		f.confirmed(burst, began)
	}
	return nil
}

// pause stops publishing until the function it returns is called.
func (f *feed) pause() (resume func()) {
	f.turn.Lock()
	return f.turn.Unlock
}
