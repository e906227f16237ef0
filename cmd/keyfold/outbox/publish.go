package outbox

import (
	"context"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/tracing"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// toBroker publishes stored rows as the events they are.
type toBroker struct {
	publisher *rabbit.Publisher
	tracing   *tracing.Tracing
	message   func(body []byte, event *profile.Event) rabbit.Message
	// backfill marks rows as seen when they were stored (long ago, where a shop's row does not
	// tell), or tried before that by a wrong created_at: whether their ids have been dropped from a profile since can be told then.
	// A relay marks only those that may have been published before.
	backfill bool
}

// Publish answers in the outbox's words.
func (b toBroker) Publish(ctx context.Context, rows []outbox.Row) []error {
	traces, published := b.tracing.Published(ctx, rows)
	messages := make([]rabbit.Message, len(rows))
	for i := range rows {
		messages[i] = b.message(rows[i].Body, &rows[i].Event)
		messages[i].Headers = headersOf(traces[i], b.since(&rows[i]))
	}
	errs := b.publisher.Publish(ctx, messages)
	published(errs)
	return errs
}

// since is from when on there may be an earlier copy of the row; 0 where there is none.
func (b toBroker) since(row *outbox.Row) engine.Millis {
	if b.backfill && (row.TriedAt == 0 || row.StoredAt < row.TriedAt) {
		return max(row.StoredAt, 1)
	}
	return row.TriedAt
}

// headersOf returns what a message says of its event; nil where that is nothing.
func headersOf(trace *engine.Trace, since engine.Millis) map[string]any {
	if trace == nil && since == 0 {
		return nil
	}
	headers := map[string]any{}
	for name, value := range trace.Headers() {
		headers[name] = value
	}
	if since != 0 {
		headers[rabbit.HeaderFirstSeen] = int64(since)
	}
	return headers
}
