// Package tracing follows an event through keyfold's processes as spans of OpenTelemetry:
// the request that stored it, its publication, its way through a worker, and the flush
// that folded it. keyfold-lite does not have it.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"keyfold/engine"
)

// Tracing begins and ends spans and sends them to a collector. A nil one does nothing. It
// waits for no collector: spans that it cannot send are dropped.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Start returns nil where neither OTEL_EXPORTER_OTLP_ENDPOINT nor
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set. The library reads these and the other OTEL_*
// variables: the headers, the sampler, the limits. service is the default of
// OTEL_SERVICE_NAME.
func Start(ctx context.Context, service, version string, log *slog.Logger) (*Tracing, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, nil
	}
	if protocol := os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: keyfold sends http/protobuf only, by default to port 4318", protocol)
	}
	log = log.With("component", "tracing")
	otel.SetLogger(logr.New(libraryLog{log}))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName(service), semconv.ServiceVersion(version)),
		resource.WithProcessPID(), resource.WithHost(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(seldom(log))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return &Tracing{provider: provider, tracer: provider.Tracer("keyfold")}, nil
}

// seldom logs an error of the library once a minute: a collector that is away is no fault
// of keyfold's.
func seldom(log *slog.Logger) otel.ErrorHandlerFunc {
	var last atomic.Int64
	return func(err error) {
		now, before := time.Now().Unix(), last.Load()
		if now-before < 60 || !last.CompareAndSwap(before, now) {
			return
		}
		log.Warn("spans are not sent", slog.Any("error", err),
			slog.String("hint", "check that the collector of OTEL_EXPORTER_OTLP_ENDPOINT runs; events go on all the same"))
	}
}

// Close sends what is left, until ctx ends.
func (t *Tracing) Close(ctx context.Context) {
	if t != nil {
		if err := t.provider.Shutdown(ctx); err != nil {
			otel.Handle(err)
		}
	}
}

// begin begins a span below the span that a trace names; nil: at the top of a trace.
func (t *Tracing) begin(ctx context.Context, above *engine.Trace, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return t.tracer.Start(propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(above.Headers())), name, options...)
}

// below returns the trace of what happens below the span of ctx, for the request of above.
func below(ctx context.Context, above *engine.Trace) *engine.Trace {
	headers := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, headers)
	next := engine.Trace{Parent: headers[engine.HeaderTraceParent], State: headers[engine.HeaderTraceState]}
	if above != nil {
		next.RequestID = above.RequestID
	}
	return &next
}

// ended ends a span with what became of it.
func ended(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

func messageID(id string) attribute.KeyValue { return semconv.MessagingMessageID(id) }
