package main

import (
	"context"
	"sync/atomic"

	"keyfold/source/inbox"
	"keyfold/source/ingest"
)

// posts joins POST /v1/events to the inbox: an event is answered once it is
// durable there, and delivered behind that.
type posts struct {
	*node
	events atomic.Int64
}

// Add stores entries and reports, aligned with the entries, which are new.
func (p *posts) Add(ctx context.Context, entries []ingest.Entry) ([]bool, error) {
	arrivals := make([]inbox.Arrival, len(entries))
	for i := range entries {
		arrivals[i] = inbox.Arrival{Body: entries[i].Body, Event: entries[i].Event}
	}
	receipts, deliveries, err := p.inbox.Add(ctx, arrivals)
	if err != nil {
		return nil, err
	}
	p.events.Add(int64(len(entries)))
	isNew := make([]bool, len(receipts))
	for i, r := range receipts {
		isNew[i] = r == inbox.ReceiptNew
	}
	// They are stored: whatever happens to the request, they go on. While the
	// windows are full this waits, which is what holds the next posts back.
	return isNew, p.deliver(p.failed, deliveries)
}

func (p *posts) count() int { return int(p.events.Load()) }
