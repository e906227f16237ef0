package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/rabbittest"
)

// notifyStack is a broker's virtual host and an empty database.
type notifyStack struct{ vhost, dsn, database string }

func newNotifyStack(t *testing.T) *notifyStack {
	t.Helper()
	t.Parallel()
	broker, server := rabbittest.Shared(t), pgtest.Shared(t)
	s := &notifyStack{vhost: broker.VHost(t), database: server.URL(server.Database(t, ""))}
	s.dsn = broker.DSN(s.vhost)
	return s
}

// run runs `keyfold notify` with these arguments.
func (s *notifyStack) run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	args = append([]string{"notify", "--rabbitmq-dsn=" + s.dsn, "--notify-database-url=" + s.database, "--retry-delay=20ms", "--max-retries=1"}, args...)
	return keyfold(t.Context(), "", args...)
}

// The command makes all that notifications need, says what, and makes nothing when it
// is run again.
//
// Promise(dispatch/setup)
func TestNotifySetup(t *testing.T) {
	s := newNotifyStack(t)
	var done struct {
		RabbitMQ struct {
			Queues     []string `json:"queues"`
			Dispatches []string `json:"dispatch_queues"`
			Retries    []string `json:"retry_queues"`
		} `json:"rabbitmq"`
		PostgreSQL struct {
			Made  int `json:"partitions_made"`
			Ahead int `json:"days_ahead"`
		} `json:"postgresql"`
	}
	for run := range 2 {
		code, out, errs := s.run(t, "setup", "-o", "json")
		if err := json.Unmarshal([]byte(out), &done); code != 0 || err != nil {
			t.Fatalf("%d: %s%s %v", code, out, errs, err)
		}
		if made := done.PostgreSQL.Made; made > 0 != (run == 0) || done.PostgreSQL.Ahead != 7 || run == 0 && made != 8 {
			t.Errorf("run %d: %s", run, out)
		}
	}
	depths, err := rabbittest.Shared(t).Depths(s.vhost)
	must.OK(t, err)
	for _, queue := range slices.Concat(done.RabbitMQ.Queues, done.RabbitMQ.Dispatches, done.RabbitMQ.Retries) {
		if _, there := depths[queue]; !there {
			t.Errorf("there is no queue %s", queue)
		}
	}
	if len(depths) != 12 {
		t.Errorf("queues: %v", depths)
	}
	code, out, errs := s.run(t, "setup")
	for _, part := range []string{"notification_events_urgent", "notification_dispatch.in_app", "notification_deliveries_failed", "notify_decisions", "0 partitions made"} {
		if code != 0 || !strings.Contains(out, part) {
			t.Errorf("%d: no %q in %s%s", code, part, out, errs)
		}
	}
}

// One call names the faults of both servers.
//
// Promise(dispatch/setup)
func TestNotifySetupWithoutServers(t *testing.T) {
	code, out, errs := withoutServers(t, "notify", "setup", "--notify-database-url=postgres://keyfold:s3cret@127.0.0.1:1/keyfold", "-o", "json")
	if code != 1 || !strings.Contains(errs, "RABBITMQ_DSN") || !strings.Contains(errs, "NOTIFY_DATABASE_URL") || strings.Contains(errs, "s3cret") {
		t.Errorf("%d: %s", code, errs)
	}
	if strings.Join(strings.Fields(out), "") != `{"rabbitmq":null,"postgresql":null}` {
		t.Errorf("%s", out)
	}
}

func TestNotifySetupPrints(t *testing.T) {
	for database, parts := range map[string][]string{
		"postgres": {"CREATE TABLE notify_decisions", "PARTITION BY RANGE", "notify_commit"},
		"sqlite":   {"CREATE TABLE notify_decisions", "STRICT"},
	} {
		code, out, errs := withoutServers(t, "notify", "setup", "--print", database)
		for _, part := range parts {
			if code != 0 || !strings.Contains(out, part) {
				t.Errorf("%s: %d, no %q: %s", database, code, part, errs)
			}
		}
	}
	if code, _, errs := withoutServers(t, "notify", "setup", "--print", "oracle"); code != 2 || !strings.Contains(errs, "postgres or sqlite") {
		t.Errorf("%d: %s", code, errs)
	}
	if code, _, errs := withoutServers(t, "notify", "setup"); code != 2 || !strings.Contains(errs, "NOTIFY_DATABASE_URL is not set") {
		t.Errorf("%d: %s", code, errs)
	}
}
