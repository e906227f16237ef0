package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// traced is a span as a collector has it.
type traced struct {
	*spans.Span
	service string
}

// collected is a collector of spans.
type collected struct {
	mu  sync.Mutex
	all []traced
}

// ServeHTTP takes what OTLP over HTTP sends.
func (c *collected) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &sent)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(rw, fmt.Sprint(r.URL, err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range sent.ResourceSpans {
		service := ""
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				c.all = append(c.all, traced{span, service})
			}
		}
	}
}

// settings starts the collector and returns the variables by which a process finds it.
func (c *collected) settings(t *testing.T) []string {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL, "OTEL_BSP_SCHEDULE_DELAY=50"}
}

// find waits for a span of a trace.
func (c *collected) find(t *testing.T, trace, service, name string) (found traced) {
	t.Helper()
	eventually(t, "the collector has "+name+" of "+service, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, span := range c.all {
			if span.service == service && span.Name == name && hex.EncodeToString(span.TraceId) == trace {
				found = span
				return nil
			}
		}
		return fmt.Errorf("it has %v", c.all)
	})
	return found
}

// One event is followed through four processes: the shop that sends it, the API, the
// relay and the worker, each as the parent of the next; the flush that folds it names it.
//
// Promise(away/tracing)
func TestTracing(t *testing.T) {
	const trace, shopSpan = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	s := newShop(t, outbox.MariaDB)
	c := &collected{}
	s.env = c.settings(t)
	s.importProducts(t)
	api, _ := s.spawn(t, "ingest", "--http-addr=127.0.0.1:0")
	relay, _ := s.spawn(t, "relay")
	worker, _ := s.spawn(t, "work", quick)
	for _, d := range []*daemon{api, relay, worker} {
		d.ready()
	}
	body := event(1, profile.ProductView, sample.Products()[0].ID, time.Now(), "traced")
	req, err := http.NewRequest(http.MethodPost, api.url(), bytes.NewReader(body))
	must.OK(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("traceparent", "00-"+trace+"-"+shopSpan+"-01")
	resp, err := sender.Do(req)
	must.OK(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatal(resp.Status)
	}
	parent := shopSpan
	var processed traced
	for _, step := range []struct{ service, name string }{
		{"keyfold-ingest", "store events"}, {"keyfold-relay", "publish event"}, {"keyfold-work", "process event"},
	} {
		processed = c.find(t, trace, step.service, step.name)
		if got := hex.EncodeToString(processed.ParentSpanId); got != parent {
			t.Errorf("%s is below %s, want %s", step.name, got, parent)
		}
		parent = hex.EncodeToString(processed.SpanId)
	}
	flush := c.find(t, trace, "keyfold-work", "flush")
	if len(flush.Links) != 1 || !bytes.Equal(flush.Links[0].SpanId, processed.SpanId) {
		t.Errorf("the flush names %v, want %x", flush.Links, processed.SpanId)
	}
	if write := c.find(t, trace, "keyfold-work", "write profiles"); !bytes.Equal(write.ParentSpanId, flush.SpanId) {
		t.Errorf("the write is below %x, want %x", write.ParentSpanId, flush.SpanId)
	}
	if end := attribute(processed, "keyfold.outcome"); end != engine.Folded.String() {
		t.Errorf("the event's span says %q", end)
	}
}

// An event whose publisher knows no slots is followed through the stage that moves it into
// its partition: the stage is below the publisher, and the worker below the stage.
func TestTracingOfPartitions(t *testing.T) {
	const trace, shopSpan = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	c := &collected{}
	p := newParted(t)
	p.env = c.settings(t)
	p.stage(t)
	_, kill := p.process(t, quick, "--partitions=4", "--worker-partitions=0-3")
	t.Cleanup(kill)
	body := event(1, profile.ProductView, sample.Products()[0].ID, time.Now(), "traced")
	e, err := profile.ParseEvent(body, time.Now())
	must.OK(t, err)
	message := p.names.EventMessage(body, &e)
	message.Headers = map[string]any{engine.HeaderTraceParent: "00-" + trace + "-" + shopSpan + "-01"}
	must.OK(t, errors.Join(p.publisher.Publish(t.Context(), []rabbit.Message{message})...))
	moved := c.find(t, trace, "keyfold-partition", "partition event")
	if got := hex.EncodeToString(moved.ParentSpanId); got != shopSpan {
		t.Errorf("the stage is below %s, want %s", got, shopSpan)
	}
	if id := attribute(moved, "messaging.message.id"); id != "traced" {
		t.Errorf("the stage's span is of the message %q", id)
	}
	if processed := c.find(t, trace, "keyfold-work", "process event"); !bytes.Equal(processed.ParentSpanId, moved.SpanId) {
		t.Errorf("the worker is below %x, want %x", processed.ParentSpanId, moved.SpanId)
	}
}

func attribute(span traced, key string) string {
	for _, a := range span.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}
