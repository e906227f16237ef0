package status

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/prometheustest"
)

// history is what a worker and another program, with the same names of events, would have told
// Prometheus each minute of the last hours: 5 events a second, 4 folded.
func history(now time.Time) string {
	var w strings.Builder
	family := func(name, kind string, series map[string]func(minute int) float64) {
		fmt.Fprintf(&w, "# TYPE %s %s\n", name, kind)
		for labels, value := range series {
			for minute := range 180 {
				fmt.Fprintf(&w, "%s %g %d\n", labels, value(minute), now.Add(time.Duration(minute-179)*time.Minute).Unix())
			}
		}
	}
	times := func(n float64) func(int) float64 { return func(minute int) float64 { return n * float64(minute) } }
	same := func(n float64) func(int) float64 { return func(int) float64 { return n } }
	family("keyfold_profile_writes", "counter", map[string]func(int) float64{`keyfold_profile_writes_total{instance="w1"}`: times(60)})
	family("keyfold_rabbitmq_delivered", "counter", map[string]func(int) float64{
		`keyfold_rabbitmq_delivered_total{instance="w1"}`: times(300), `keyfold_rabbitmq_delivered_total{instance="notifier"}`: times(9000),
	})
	family("keyfold_events", "counter", map[string]func(int) float64{
		`keyfold_events_total{instance="w1",outcome="folded"}`: times(240), `keyfold_events_total{instance="w1",outcome="dead"}`: times(60),
	})
	family("keyfold_event_to_profile_seconds", "histogram", map[string]func(int) float64{
		`keyfold_event_to_profile_seconds_bucket{instance="w1",le="5"}`: times(120), `keyfold_event_to_profile_seconds_bucket{instance="w1",le="10"}`: times(240),
		`keyfold_event_to_profile_seconds_bucket{instance="w1",le="+Inf"}`: times(240),
	})
	family("rabbitmq_detailed_queue_messages_ready", "gauge", map[string]func(int) float64{
		`rabbitmq_detailed_queue_messages_ready{instance="a",vhost="/",queue="user_embedding_updates.03"}`:     same(30),
		`rabbitmq_detailed_queue_messages_ready{instance="b",vhost="/",queue="user_embedding_updates.03"}`:     same(30),
		`rabbitmq_detailed_queue_messages_ready{instance="a",vhost="/",queue="user_embedding_updates.common"}`: same(12),
		`rabbitmq_detailed_queue_messages_ready{instance="a",vhost="/",queue="user_embedding_updates_failed"}`: same(500),
	})
	family("keyfold_outbox_unsent", "gauge", map[string]func(int) float64{`keyfold_outbox_unsent{instance="r1"}`: same(7), `keyfold_outbox_unsent{instance="r2"}`: same(7)})
	w.WriteString("# EOF\n")
	return w.String()
}

// A real Prometheus answers with the figures of a span, and with the alerts that fire.
func TestFiguresAndAlertsOfPrometheus(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	rules := `groups: [{name: x, interval: 1s, rules: [
		{alert: KeyfoldTest, expr: 'vector(3) > 2', labels: {severity: page}, annotations: {summary: 'three <b>things</b>', runbook_url: 'https://keyfold.example/docs/RUNBOOK.md#keyfolddown'}},
		{alert: KeyfoldWaits, expr: 'vector(1)', for: 1h}, {alert: OthersAlert, expr: 'vector(1)'}]}]`
	server := prometheustest.Start(t, history(time.Now()), "rule_files: [rules.yml]\n", map[string]string{"rules.yml": rules})
	p, err := newPrometheus(server.URL())
	must.OK(t, err)
	defer p.client.CloseIdleConnections()
	past, err := p.past(t.Context(), time.Hour)
	must.OK(t, err)
	if n := len(past.Times); n != points+1 || past.Times[n-1].Sub(past.Times[0]) != time.Hour {
		t.Errorf("%d times, of %v", n, past.Times[n-1].Sub(past.Times[0]))
	}
	middle := len(past.Times) / 2
	for name, figure := range map[string]struct{ got, want float64 }{
		"in": {past.In[middle], 5}, "folded": {past.Folded[middle], 4}, "p99": {past.Age99[middle], 9.9}, "p50": {past.Age50[middle], 5},
		"queued": {past.Queued[middle], 42}, "unsent": {past.Unsent[middle], 7},
	} {
		if math.Abs(figure.got-figure.want) > 0.01*figure.want {
			t.Errorf("%s is %v, not %v", name, figure.got, figure.want)
		}
	}
	if past, err = p.past(t.Context(), 24*time.Hour); err != nil || !math.IsNaN(past.In[3]) || math.Abs(past.In[len(past.In)-3]-5) > 0.05 {
		t.Errorf("a day: %v, %v", err, past)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		alerts, err := p.alerts(t.Context())
		if err == nil && len(alerts) == 2 && alerts[0].Name == "KeyfoldTest" && alerts[0].State == "firing" && alerts[0].Severity == "page" &&
			alerts[0].Runbook == "keyfolddown" && alerts[0].Summary == "three <b>things</b>" && alerts[1].Name == "KeyfoldWaits" && alerts[1].State == "pending" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, %+v", err, alerts)
		}
		time.Sleep(50 * time.Millisecond)
	}
	server.Stop()
	if _, err := p.past(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "PROMETHEUS_URL") || strings.Contains(err.Error(), server.Address()+"/") {
		t.Errorf("away: %v", err)
	}
}
