package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/outbox"
)

// Stored begins the span of a request whose events are being stored, below the sender's
// where it named one, and makes it the trace of the events. The span ends with what is
// returned.
func (t *Tracing) Stored(ctx context.Context, entries []profile.Entry) (context.Context, func(error)) {
	if t == nil || len(entries) == 0 {
		return ctx, func(error) {}
	}
	above := entries[0].Trace
	ctx, span := t.begin(ctx, above, "store events", trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.Int("keyfold.events", len(entries))))
	next := below(ctx, above)
	for i := range entries {
		entries[i].Trace = next
	}
	return ctx, func(err error) { ended(span, err) }
}

// Published begins a span for the publication of each row that has a trace, and returns
// the traces of the messages, aligned with rows. The spans end with the rows' errors.
func (t *Tracing) Published(ctx context.Context, rows []outbox.Row) (traces []*engine.Trace, end func([]error)) {
	traces, spans := make([]*engine.Trace, len(rows)), make([]trace.Span, len(rows))
	for i := range rows {
		row := &rows[i]
		traces[i] = row.Trace
		if t == nil || row.Trace == nil || row.Trace.Parent == "" {
			continue
		}
		at, span := t.begin(ctx, row.Trace, "publish event", trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(messageID(row.Event.MessageID)))
		traces[i], spans[i] = below(at, row.Trace), span
	}
	return traces, func(errs []error) {
		for i, span := range spans {
			if span != nil {
				ended(span, errs[i])
			}
		}
	}
}
