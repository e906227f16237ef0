package httpapi

import (
	"strings"
	"testing"
	"time"

	"keyfold/engine/metric"
	"keyfold/internal/testserver/must"
)

func TestStats(t *testing.T) {
	h := newTestHandler(newMemory())
	_, _ = post(t, h, asJSON, "["+view(1)+","+view(1)+"]")
	_, _ = post(t, h, "application/x-ndjson", " ")
	_, _ = post(t, h, "text/plain", "x")
	_, _ = serve(t, h, request("GET", "/livez", "", nil))
	s := &h.stats
	s.Latency.Observe(200 * time.Millisecond)
	s.Latency.Observe(200*time.Millisecond + 1)
	s.Latency.Observe(time.Hour)
	server, err := NewServer(DefaultConfig(), h)
	must.OK(t, err)
	var set metric.Set
	var out strings.Builder
	server.Register(&set)
	set.WritePrometheus(&out)
	for _, want := range []string{
		`keyfold_ingest_requests_total{status="200"} 1`, `keyfold_ingest_requests_total{status="202"} 1`,
		`keyfold_ingest_requests_total{status="400"} 1`, `keyfold_ingest_requests_total{status="415"} 1`,
		`keyfold_ingest_requests_in_flight 0`, `keyfold_ingest_request_duration_seconds_bucket{le="0.2"} 4`, `keyfold_ingest_request_duration_seconds_bucket{le="0.5"} 5`,
		`keyfold_ingest_request_duration_seconds_bucket{le="30"} 5`, `keyfold_ingest_request_duration_seconds_bucket{le="+Inf"} 6`,
		`keyfold_ingest_request_duration_seconds_count 6`,
	} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("%s is missing in:\n%s", want, out.String())
		}
	}
	if !strings.Contains(out.String(), `{status="503"} 0`) || strings.Contains(out.String(), `"504"`) {
		t.Errorf("statuses that never were:\n%s", out.String())
	}
}
