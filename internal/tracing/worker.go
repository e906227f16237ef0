package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Received begins a span for each delivery that has a trace, and makes it the delivery's
// trace. It ends with the verdict.
func (t *Tracing) Received(ctx context.Context, deliveries []profile.Delivery) {
	for i := range deliveries {
		d := &deliveries[i]
		d.Trace, d.Settler = t.consumed(ctx, "process event", d.Trace, d.Settler, messageID(d.Event.MessageID), attribute.Int("keyfold.attempt", d.Attempt))
	}
}

// Moved begins the span of a message that goes into its user's partition, if it has a
// trace. It returns the trace of the copy, and the message's settler, which ends the span.
func (t *Tracing) Moved(above *engine.Trace, id string, settler engine.Settler) (*engine.Trace, engine.Settler) {
	return t.consumed(context.Background(), "partition event", above, settler, messageID(id))
}

// consumed begins the span of a message that has a trace, and returns the trace of what
// comes next, and a settler that ends the span with the verdict. Without a trace, or where
// it is not sampled, both are as they were.
func (t *Tracing) consumed(ctx context.Context, name string, above *engine.Trace, settler engine.Settler, about ...attribute.KeyValue) (*engine.Trace, engine.Settler) {
	if above == nil || above.Parent == "" {
		return above, settler
	}
	at, span := t.begin(ctx, above, name, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(about...))
	if !span.IsRecording() {
		return above, settler
	}
	return below(at, above), &settled{settler, span}
}

// settled ends a message's span with its verdict.
type settled struct {
	settler engine.Settler
	span    trace.Span
}

// Settle implements [engine.Settler].
func (s *settled) Settle(v engine.Verdict) {
	if v.Outcome != engine.Decided { // a copy is confirmed: the event's outcome comes later
		s.span.SetAttributes(attribute.String("keyfold.outcome", v.Outcome.String()))
	}
	ended(s.span, v.Err)
	s.settler.Settle(v)
}

// Flush begins the span of a flush: below its first event that has a trace, with links to
// all others. The library keeps 128 links of a span.
func (t *Tracing) Flush(ctx context.Context, batches []profile.Batch) (context.Context, func()) {
	var links []trace.Link
	for i := range batches {
		for j := range batches[i].Deliveries {
			above := batches[i].Deliveries[j].Trace
			if above == nil || above.Parent == "" {
				continue
			}
			of := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(above.Headers())))
			if of.IsSampled() {
				links = append(links, trace.Link{SpanContext: of})
			}
		}
	}
	if len(links) == 0 {
		return ctx, func() {}
	}
	ctx, span := t.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, links[0].SpanContext), "flush", trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int("keyfold.users", len(batches))))
	return ctx, func() { span.End() }
}

// Profiles begins a span for each call of a store of profiles within a traced flush.
func (t *Tracing) Profiles(store profile.Profiles) profile.Profiles { return profiles{store, t.tracer} }

type profiles struct {
	profile.Profiles
	tracer trace.Tracer
}

// Load implements [profile.Profiles].
func (p profiles) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return p.Profiles.Load(ctx, users)
	}
	ctx, span := p.tracer.Start(ctx, "load profiles", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.Int("keyfold.users", len(users))))
	found, err := p.Profiles.Load(ctx, users)
	ended(span, err)
	return found, err
}

// Swap implements [profile.Profiles].
func (p profiles) Swap(ctx context.Context, all []*profile.Profile) []error {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return p.Profiles.Swap(ctx, all)
	}
	ctx, span := p.tracer.Start(ctx, "write profiles", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.Int("keyfold.users", len(all))))
	errs := p.Profiles.Swap(ctx, all)
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	span.SetAttributes(attribute.Int("keyfold.failed", failed))
	span.End()
	return errs
}
