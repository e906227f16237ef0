package dashboard

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keyfold/internal/testserver/must"
	"keyfold/service/status"
	"keyfold/source/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 23, 12, 5, 10, 0, time.UTC)

// quiet is an installation at work that needs no person. It has folded as many events as the
// tick says, one each 10 s.
func quiet(tick int) *status.Report {
	held, workers, oldest, lag := 3890, 3, 2.0, 10.0
	r := &status.Report{
		At: noon.Add(time.Duration(tick) * sampleEvery),
		Servers: []status.Server{
			{Server: status.RabbitMQ, Address: "amqp://keyfold:***@rabbitmq:5672/", Used: true},
			{Server: status.MongoDB, Address: "mongodb://mongodb:27017/?replicaSet=rs0", Used: true},
			{Server: status.SQL, Address: "mysql://keyfold:***@mariadb:3306/keyfold", Used: true},
			{Server: "Redis", Note: "none: REDIS_URL is not set, or EMBEDDER is hash"},
		},
		Queues: []status.Queue{
			{Name: "user_embedding_updates", Of: status.OfProfiles, Holds: status.Events, Ready: 12 + tick%7, Unacknowledged: &held, Consumers: 48, OldestSeconds: &oldest},
			{Name: "user_embedding_updates.retry.5000", Of: status.OfProfiles, Holds: status.Delayed, Ready: 3},
			{Name: "user_embedding_updates_failed", Of: status.OfProfiles, Holds: status.DeadLetters, Ready: 2},
		},
		Workers: &workers,
		Outbox:  &status.Outbox{Unsent: int64(7 + tick%5), OldestSeconds: 0.4, Backfill: 1234},
		Streams: []status.Stream{{Stream: "s-0", First: 100, End: 41200, Position: 41100, Lag: 100, Behind: 4}},
	}
	for i := range 3 {
		since := tick
		if i == 1 && tick > 60 {
			since -= 60 // it began anew
		}
		r.Processes = append(r.Processes, worker(fmt.Sprintf("10.0.0.%d:9090", 11+i), since, &lag))
	}
	r.Processes = append(r.Processes, status.Process{Address: "relay:9090", Roles: []string{"relay"}, Version: "v1.4.0", Ready: true, Figures: map[string]float64{"process_resident_memory_bytes": 41 << 20}})
	r.Notes = []string{"nothing was asked of Prometheus"}
	return r
}

func worker(address string, tick int, lag *float64) status.Process {
	n := 2700*float64(tick) + 600*math.Sin(float64(tick)/5)
	return status.Process{
		Address: address, Roles: []string{"worker"}, Version: "v1.4.0", Ready: true, InHand: 1297, Lag99: lag,
		Figures: map[string]float64{
			writes: n * 0.41, "keyfold_rabbitmq_delivered_total": n, `keyfold_events_total{outcome="folded"}`: n * 0.99, `keyfold_events_total{outcome="dead"}`: 2,
			ages + `_bucket{le="5"}`: n * 0.6, ages + `_bucket{le="10"}`: n * 0.995, ages + `_bucket{le="30"}`: n, ages + `_bucket{le="+Inf"}`: n,
			"process_resident_memory_bytes": 187 << 20, "keyfold_partitions_owned": 5, "process_start_time_seconds": float64(noon.Unix() - 7200),
		},
	}
}

// faulty is one that does need a person.
func faulty(tick int) *status.Report {
	r := quiet(tick)
	none := 0
	r.Servers[1].Error = "MongoDB does not listen at its address; check that it runs, and that MONGODB_URI has its host and port"
	r.Queues[0].Ready, r.Queues[0].Unacknowledged, r.Queues[0].Consumers = 7210, &none, 0
	r.Queues[2].Ready = 31
	r.Outbox = &status.Outbox{Unsent: 90114, OldestSeconds: 154, SetAside: 1}
	for i := range 2 {
		p := &r.Processes[i]
		p.Ready, p.Reason, p.InHand, p.Open = false, "store: away since 2026-11-23T12:03:00Z: server selection timeout", 0, []string{"store"}
	}
	r.Processes[2] = status.Process{Address: "10.0.0.13:9090", Error: "connection refused"}
	r.Processes[3].Remarks = []string{"dead letters: 3 events wait"}
	r.Problems = []status.Problem{
		{About: "MongoDB", Text: r.Servers[1].Error + " (connection refused at mongodb:27017)", Runbook: "connection-refused"},
		{About: "workers", Text: "no process consumes from user_embedding_updates, where 7,210 messages are ready: workers wait for MongoDB", Cure: "check that MongoDB answers; workers that run go on by themselves, and no event is lost", Runbook: "keyfoldstoredown"},
		{About: "dead letters", Text: "31 dead letters of profiles", Cure: "`keyfold failed stats` says why; cure it, then `keyfold failed retry`", Runbook: "keyfolddeadletterswaiting"},
		{About: "outbox", Text: "90,114 events are not published, the oldest after 2m", Cure: "check that `keyfold relay` runs, and what its log says", Runbook: "keyfoldoutboxnotpublished"},
		{About: "10.0.0.13:9090", Text: "the process does not answer: connection refused", Cure: "check that it runs", Runbook: "keyfolddown"},
	}
	return r
}

// shownAs is a dashboard that has looked at an installation for 15 minutes, and the last time at r.
func shownAs(t testing.TB, config Config, sources Sources, last *status.Report) *Dashboard {
	t.Helper()
	now := noon
	if config.Now == nil {
		config.Now = func() time.Time { return now }
	}
	d, err := New(config, sources, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	for tick := range 90 {
		r := quiet(tick)
		now = r.At
		d.watch.take(now, r, nil)
	}
	if last != nil {
		for range 9 {
			again := *last
			again.At = now.Add(sampleEvery)
			now = again.At
			d.watch.take(now, &again, nil)
		}
	}
	return d
}

// guarded serves a dashboard as the program does.
func guarded(t testing.TB, d *Dashboard, config httpapi.Config) *httpapi.Server {
	t.Helper()
	server, err := httpapi.NewServer(config, httpapi.NewHandler(d, slog.New(slog.DiscardHandler)))
	must.OK(t, err)
	return server
}

func onLoopback() httpapi.Config {
	c := httpapi.DefaultConfig()
	c.Addr, c.Hosts = "127.0.0.1:7090", []string{}
	return c
}

// get asks for a page.
func get(t testing.TB, h http.Handler, path string, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "localhost:7090"
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	must.OK(t, err)
	return res, string(body)
}

func lookAt(r *status.Report) func(context.Context, map[string]map[string]float64) (*status.Report, error) {
	return func(context.Context, map[string]map[string]float64) (*status.Report, error) { return r, nil }
}
