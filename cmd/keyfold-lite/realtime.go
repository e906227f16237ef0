package main

import (
	"context"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
)

// realtimeReplay keeps a log's own intervals: an event goes out as long after the first
// one as it happened after it.
type realtimeReplay struct {
	started time.Time
	first   engine.Millis
}

// wait sleeps until an event of that time is due; late ones go at once.
func (p *realtimeReplay) wait(ctx context.Context, at engine.Millis) error {
	if p.started.IsZero() {
		p.started, p.first = time.Now(), at
	}
	if due := p.started.Add(time.Duration(at-p.first) * time.Millisecond); !backoff.Sleep(ctx, time.Until(due)) {
		return context.Cause(ctx)
	}
	return nil
}
