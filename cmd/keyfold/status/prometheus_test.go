package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/service/dashboard"
)

// threeAlerts is as Prometheus 3.5 answers at /api/v1/alerts, with one of another team.
const threeAlerts = `{"status":"success","data":{"alerts":[
{"labels":{"alertname":"KeyfoldQueueLong","severity":"ticket","vhost":"/"},"annotations":{"description":"Workers are too few.","runbook_url":"docs/RUNBOOK.md#keyfoldqueuelong","summary":"7.2k events wait for a worker"},"state":"pending","activeAt":"2026-11-23T11:58:30.123456789Z","value":"7.21e+03"},
{"labels":{"alertname":"NodeDown","severity":"page"},"annotations":{"summary":"another team's"},"state":"firing","activeAt":"2026-11-23T11:00:00Z","value":"0e+00"},
{"labels":{"alertname":"KeyfoldStoreDown","severity":"page","instance":"worker-2:9090"},"annotations":{"runbook_url":"https://git.example/keyfold/docs/RUNBOOK.md#keyfoldstoredown","summary":"MongoDB is away"},"state":"firing","activeAt":"2026-11-23T12:01:00Z","value":"1e+00"},
{"labels":{"alertname":"KeyfoldDown","severity":"page"},"annotations":{"summary":"worker-1:9090 does not answer"},"state":"firing","activeAt":"2026-11-23T12:00:00+02:00","value":"0e+00"}
]}}`

// answering answers with a text, and returns the address to ask.
func answering(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func asked(t *testing.T, address string) ([]dashboard.Alert, error) {
	t.Helper()
	p, err := newPrometheus(address)
	must.OK(t, err)
	return p.alerts(t.Context())
}

// Those of keyfold alone are shown, the firing ones first, the oldest of them first.
func TestAlertsOfPrometheus(t *testing.T) {
	var path, user, password string
	url := answering(t, func(rw http.ResponseWriter, r *http.Request) {
		path = r.Method + " " + r.URL.String()
		user, password, _ = r.BasicAuth()
		fmt.Fprint(rw, threeAlerts)
	})
	got, err := asked(t, strings.Replace(url, "http://", "http://ops:s3cret@", 1)+"/prometheus/")
	if err != nil || path != "GET /prometheus/api/v1/alerts" || user != "ops" || password != "s3cret" {
		t.Errorf("%s is asked as %s:%s: %v", path, user, password, err)
	}
	for i := range got {
		got[i].Since = got[i].Since.UTC()
	}
	want := []dashboard.Alert{
		{Name: "KeyfoldDown", State: "firing", Severity: "page", Summary: "worker-1:9090 does not answer", Since: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), Value: "0e+00"},
		{Name: "KeyfoldStoreDown", State: "firing", Severity: "page", Summary: "MongoDB is away", Runbook: "keyfoldstoredown", Since: time.Date(2026, 11, 23, 12, 1, 0, 0, time.UTC), Value: "1e+00"},
		{Name: "KeyfoldQueueLong", State: "pending", Severity: "ticket", Summary: "7.2k events wait for a worker", Runbook: "keyfoldqueuelong", Since: time.Date(2026, 11, 23, 11, 58, 30, 123456789, time.UTC), Value: "7.21e+03"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the alerts are\n%+v", got)
	}
	none := answering(t, func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"status":"success","data":{"alerts":[]}}`)
	})
	if got, err := asked(t, none); err != nil || len(got) > 0 {
		t.Errorf("of none there are %v, %v", got, err)
	}
}

// What is no answer of Prometheus is said with its cure, never as "no alerts", and no secret is part
// of it.
func TestPrometheusThatDoesNotTell(t *testing.T) {
	plain := func(status int, body string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(status)
			fmt.Fprint(rw, body)
		}
	}
	hung := make(chan struct{})
	defer close(hung)
	for says, answer := range map[string]http.HandlerFunc{
		"401 Unauthorized: is PROMETHEUS_URL right?":                                               plain(http.StatusUnauthorized, "no"),
		"404 Not Found: is PROMETHEUS_URL right?":                                                  plain(http.StatusNotFound, "<html>"),
		"503 Service Unavailable":                                                                  plain(http.StatusServiceUnavailable, `{"status":"error","errorType":"unavailable","error":"TSDB not ready"}`),
		"what answers at PROMETHEUS_URL is not Prometheus: invalid character '<'":                  plain(http.StatusOK, "<html>a login page</html>"),
		"what answers at PROMETHEUS_URL is not Prometheus: unexpected EOF":                         plain(http.StatusOK, threeAlerts[:300]),
		"what answers at PROMETHEUS_URL is not Prometheus: EOF":                                    plain(http.StatusOK, ""),
		"what answers at PROMETHEUS_URL is not Prometheus: its status is \"error\": out of memory": plain(http.StatusOK, `{"status":"error","errorType":"internal","error":"out of memory"}`),
		"what answers at PROMETHEUS_URL is not Prometheus: its status is \"\"":                     plain(http.StatusOK, `{}`),
		"is not Prometheus: unexpected EOF":                                                        plain(http.StatusOK, `{"status":"success","data":{"alerts":[{"labels":{"alertname":"`+strings.Repeat("K", maxAnswer)),
		"context deadline exceeded": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-hung:
			}
		},
	} {
		p, err := newPrometheus(strings.Replace(answering(t, answer), "http://", "http://ops:s3cret@", 1))
		must.OK(t, err)
		ctx := t.Context()
		if strings.HasPrefix(says, "context") { // the page's own bound
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
		}
		got, err := p.alerts(ctx)
		if err == nil || got != nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("want %q, and %v is told: %v", says, got, err)
		}
	}
	_, err := asked(t, "http://ops:s3cret@127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "check that it runs, and that PROMETHEUS_URL is right") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("where none listens: %v", err)
	}
}

// A server may send any text: it is kept as text, and its length is bounded with the answer.
func TestAlertsWithHostileTexts(t *testing.T) {
	const hostile = `<script>alert(1)</script>\u202e\u0000\ud800 ]]>`
	url := answering(t, func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, `{"status":"success","data":{"alerts":[{"labels":{"alertname":"Keyfold%[1]s","severity":"%[1]s"},"annotations":{"summary":"%[1]s","runbook_url":"javascript:alert(1)//RUNBOOK.md#\"><script>"},"state":"%[1]s","activeAt":"2026-11-23T12:01:00Z","value":"%[1]s"}]}}`, hostile)
	})
	got, err := asked(t, url)
	if err != nil || len(got) != 1 || !strings.HasPrefix(got[0].Name, "Keyfold<script>") || got[0].Runbook != `"><script>` {
		t.Errorf("%+v, %v", got, err)
	}
	bad := answering(t, func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"status":"success","data":{"alerts":[{"labels":{"alertname":7}}]}}`)
	})
	if _, err := asked(t, bad); err == nil {
		t.Error("a name that is a number is taken")
	}
}

func TestAddressOfPrometheus(t *testing.T) {
	if p, err := newPrometheus(""); p != nil || err != nil {
		t.Errorf("without an address: %v, %v", p, err)
	}
	for _, address := range []string{"prometheus:9090", "ftp://ops:s3cret@prometheus", "http://", "http://ops:s3cret@a b", "//prometheus", ":"} {
		if _, err := newPrometheus(address); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "http://prometheus:9090") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := unwrapURL(errors.New("as it is")); err.Error() != "as it is" {
		t.Error(err)
	}
}
