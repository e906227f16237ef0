package ingest

import (
	"strings"
	"testing"

	"keyfold/engine/metric"
)

func TestStats(t *testing.T) {
	h := newTestHandler(newMemory())
	_, _ = post(t, h, asJSON, "["+view(1)+","+view(1)+"]")
	_, _ = post(t, h, asLines, "{}\n{}\n"+view(2))
	var set metric.Set
	var out strings.Builder
	h.api.Stats().Register(&set)
	set.WritePrometheus(&out)
	for _, want := range []string{
		`keyfold_ingest_events_total{outcome="accepted"} 1`, `keyfold_ingest_events_total{outcome="duplicate"} 1`, `keyfold_ingest_events_total{outcome="refused"} 2`,
	} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("%s is missing in:\n%s", want, out.String())
		}
	}
}
