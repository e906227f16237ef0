package tracing

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// recorded is a Tracing whose spans stay in memory.
func recorded(t *testing.T) (*Tracing, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return &Tracing{provider: provider, tracer: provider.Tracer("test")}, spans
}

func traceOf(span string, flags string) *engine.Trace {
	return &engine.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-" + span + "-" + flags, RequestID: "r-1"}
}

type noSettler struct{ verdicts []engine.Verdict }

func (s *noSettler) Settle(v engine.Verdict) { s.verdicts = append(s.verdicts, v) }

// Without a collector nothing is begun, and the events stay as they are.
func TestOff(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	off, err := Start(t.Context(), "test", "1", slog.New(slog.DiscardHandler))
	if off != nil || err != nil {
		t.Fatal(off, err)
	}
	trace := traceOf("00f067aa0ba902b7", "01")
	entries := []profile.Entry{{Trace: trace}, {}}
	_, stored := off.Stored(t.Context(), entries)
	stored(nil)
	traces, published := off.Published(t.Context(), []outbox.Row{{Trace: trace}, {}})
	published([]error{nil, nil})
	if entries[0].Trace != trace || entries[1].Trace != nil || traces[0] != trace || traces[1] != nil {
		t.Errorf("%v %v", entries, traces)
	}
	off.Close(t.Context())
}

// Only events that came with a trace get spans, as its next ones; what was not sampled is
// not recorded, and keeps its settler. The request's id stays.
func TestSpansOfEvents(t *testing.T) {
	on, spans := recorded(t)
	settler := &noSettler{}
	deliveries := []profile.Delivery{
		{Trace: traceOf("00f067aa0ba902b7", "01"), Settler: settler},
		{Trace: traceOf("00f067aa0ba902b8", "00"), Settler: settler},
		{Trace: &engine.Trace{RequestID: "r-2"}, Settler: settler},
		{Settler: settler},
	}
	on.Received(t.Context(), deliveries)
	for i, d := range deliveries {
		if followed := d.Settler != engine.Settler(settler); followed != (i == 0) {
			t.Errorf("delivery %d is followed: %v", i, followed)
		}
	}
	if next := deliveries[0].Trace; next.RequestID != "r-1" || strings.Contains(next.Parent, "00f067aa0ba902b7") || !strings.Contains(next.Parent, "4bf92f3577b34da6a3ce929d0e0e4736") {
		t.Errorf("the next trace is %+v", next)
	}
	ctx, end := on.Flush(t.Context(), []profile.Batch{{UserID: 1, Deliveries: deliveries[1:]}, {UserID: 2, Deliveries: deliveries[:1]}})
	if ctx == t.Context() {
		t.Error("the flush is not followed")
	}
	end()
	if _, end := on.Flush(t.Context(), []profile.Batch{{UserID: 1, Deliveries: deliveries[1:]}}); end == nil {
		t.Error("a flush that is not followed has no end")
	}
	deliveries[0].Settler.Settle(engine.Verdict{Outcome: engine.Retry, Err: errors.New("the store is away")})
	all := spans.GetSpans()
	if len(settler.verdicts) != 1 || len(all) != 2 || all[0].Name != "flush" || len(all[0].Links) != 1 || all[1].Status.Description != "the store is away" {
		t.Errorf("%d verdicts, spans %+v", len(settler.verdicts), all)
	}
}

// The span of a message that is moved ends with its copy's confirm, and tells no outcome
// of the event. What is not sampled goes on as it came.
func TestSpansOfMovedMessages(t *testing.T) {
	on, spans := recorded(t)
	settler := &noSettler{}
	for _, above := range []*engine.Trace{nil, {RequestID: "r-2"}, traceOf("00f067aa0ba902b7", "00")} {
		if next, same := on.Moved(above, "m1", settler); next != above || same != engine.Settler(settler) {
			t.Errorf("%v became %v", above, next)
		}
	}
	above := traceOf("00f067aa0ba902b7", "01")
	next, follows := on.Moved(above, "m1", settler)
	follows.Settle(engine.Verdict{Outcome: engine.Decided})
	all := spans.GetSpans()
	if len(all) != 1 || len(settler.verdicts) != 1 {
		t.Fatalf("%d verdicts, spans %+v", len(settler.verdicts), all)
	}
	moved := all[0]
	if moved.Parent.SpanID().String() != "00f067aa0ba902b7" || !strings.Contains(next.Parent, moved.SpanContext.SpanID().String()) || next.RequestID != "r-1" {
		t.Errorf("%+v is followed by %+v", moved, next)
	}
	for _, a := range moved.Attributes {
		if a.Key == "keyfold.outcome" {
			t.Errorf("the span tells the outcome %q", a.Value.AsString())
		}
	}
}

// A collector that is away costs a warning a minute, and no event.
//
// Promise(away/tracing): Spans are dropped while their collector is away, one warning a minute says
// so, and events go on.
func TestCollectorAway(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	var log logtest.Buffer
	on, err := Start(t.Context(), "test", "1", slog.New(slog.NewTextHandler(&log, nil)))
	must.OK(t, err)
	_, stored := on.Stored(t.Context(), make([]profile.Entry, 1))
	stored(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	on.Close(ctx)
	for range 3 {
		otel.Handle(errors.New("once more"))
	}
	if n := strings.Count(log.String(), "spans are not sent"); n != 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
}

// A protocol that keyfold does not have is refused with the one that it has.
func TestAnotherProtocol(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if _, err := Start(t.Context(), "test", "1", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "http/protobuf") {
		t.Error(err)
	}
}

// Settings that the library cannot read are told of without what they hold.
func TestUnreadableSettings(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:s3cret%zz@127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "s3cret,authorization=%zzs3cret")
	var log logtest.Buffer
	if _, err := Start(t.Context(), "test", "1", slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"parse url", "parse headers", "escape header value", "hint="} {
		if !strings.Contains(log.String(), what) || strings.Contains(log.String(), "s3cret") {
			t.Errorf("%q is missing, or there is a secret: %s", what, log.String())
		}
	}
}
