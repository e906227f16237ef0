package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/service/notify/broker"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/source/rabbit"
)

// work starts a worker and stops it at the test's end.
func (s *notifyStack) work(t *testing.T) *daemon {
	t.Helper()
	return startDaemon(t, "notify", "work", "--rabbitmq-dsn="+s.dsn, "--notify-database-url="+s.database,
		"--retry-delay=20ms", "--max-retries=1", "--admin-addr=127.0.0.1:0", "--log-format=json")
}

// post publishes an event of each type.
func (s *notifyStack) post(t *testing.T, types ...string) {
	t.Helper()
	for _, kind := range types {
		s.postTo(t, "a", kind, "a title")
	}
}

// postTo publishes an event.
func (s *notifyStack) postTo(t *testing.T, user, kind, title string) {
	t.Helper()
	p := rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("test"), "test", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	e, err := notify.Parse(fmt.Appendf(nil, `{"event_id":%q,"user_id":%q,"event_type":%q,"title":%q,"source":"test","channel":["push"],"timestamp":%q}`,
		uuid.New(), user, kind, title, time.Now().UTC().Format(time.RFC3339)), engine.Now())
	must.OK(t, err)
	must.OK(t, errors.Join(p.Publish(t.Context(), []rabbit.Message{broker.EventMessage(e)})...))
	must.OK(t, p.Close(t.Context()))
}

func (s *notifyStack) depth(t *testing.T, queue string) int {
	t.Helper()
	depths, err := rabbittest.Shared(t).Depths(s.vhost)
	must.OK(t, err)
	return depths[queue]
}

// dispatched waits for a message to the senders of push. A quorum queue tells its
// depth a moment later.
func (s *notifyStack) dispatched(t *testing.T) {
	t.Helper()
	eventually(t, "it is dispatched", func() error {
		if s.depth(t, "notification_dispatch.push") == 0 {
			return errors.New("the queue is empty")
		}
		return nil
	})
}

// unready returns why the daemon is not ready.
func (d *daemon) unready() error {
	if code, body := d.get("/readyz"); code != http.StatusOK {
		return fmt.Errorf("%d: %s", code, body)
	}
	return nil
}

// The worker decides what both queues bring, and tells of it.
func TestNotifyWork(t *testing.T) {
	s := newNotifyStack(t)
	if code, _, errs := s.run(t, "setup"); code != 0 {
		t.Fatal(errs)
	}
	d := s.work(t)
	eventually(t, "it is ready", d.unready)
	s.post(t, "SECURITY", "PROMO")
	for _, series := range []string{
		`keyfold_notify_handled_total{outcome="decided"} 2`, `keyfold_rabbitmq_acked_total{queue="notification_events"} 1`,
		`keyfold_rabbitmq_acked_total{queue="notification_events_urgent"} 1`, `keyfold_breaker_open{dependency="ledger"} 0`,
	} {
		eventually(t, series, func() error {
			if _, page := d.get("/metrics"); !strings.Contains(page, series+"\n") {
				return errors.New(page)
			}
			return nil
		})
	}
	_, page := d.get("/metrics")
	checkMetrics(t, "notify work", page, "keyfold_notify_decisions_total", "keyfold_notify_decision_seconds", "keyfold_notify_event_to_dispatch_seconds",
		"keyfold_notify_conflicts_total", "keyfold_notify_deferred", "keyfold_notify_deferral_lag_seconds", "keyfold_notify_oldest_undispatched_seconds",
		"keyfold_notify_commit_seconds", "keyfold_notify_users_per_commit", "keyfold_notify_partitions_ahead_days",
		"keyfold_notify_deliveries_total", "keyfold_notify_unreported", "messages_processed_total", "worker_instances_active")
	s.dispatched(t)
	if code := d.stop(); code != 0 || d.logged(`"msg":"worker started"`) != nil || d.logged(`"msg":"since the start"`, `"messages":2`) != nil {
		t.Errorf("exit code %d:\n%s", code, d.log)
	}
}

// A worker whose servers are not set up ends with the cure.
func TestNotifyWorkNamesTheSetup(t *testing.T) {
	s := newNotifyStack(t)
	code, _, errs := s.run(t, "work", "--admin-addr=127.0.0.1:0")
	if code != cli.ExitFailure || !strings.Contains(errs, "run `keyfold notify setup`") {
		t.Errorf("%d: %s", code, errs)
	}
}

// While the senders have no queue, the worker waits and names the cure; what was
// decided meanwhile is dispatched afterwards, and no attempt is used.
//
// Promise(notify-worker/no-dispatch-queue): Without the senders' queue the worker consumes nothing and
// `/readyz` names the cure; what was decided is dispatched afterwards.
func TestNotifyDispatchQueueMissing(t *testing.T) {
	s := newNotifyStack(t)
	if code, _, errs := s.run(t, "setup"); code != 0 {
		t.Fatal(errs)
	}
	rabbittest.Shared(t).DeleteQueue(t, s.vhost, "notification_dispatch.push")
	d := s.work(t)
	eventually(t, "it is ready", d.unready)
	s.post(t, "SECURITY")
	eventually(t, "the cure is named", func() error {
		if err := d.unready(); err == nil || !strings.Contains(err.Error(), "run `keyfold notify setup`") {
			return fmt.Errorf("ready: %w", err)
		}
		return nil
	})
	if code := d.stop(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.log)
	}
	if code, _, errs := s.run(t, "setup"); code != 0 {
		t.Fatal(errs)
	}
	d = s.work(t)
	s.dispatched(t)
	if code := d.stop(); code != 0 || s.depth(t, "notification_events_failed") != 0 || s.depth(t, "notification_events_urgent") != 0 {
		t.Errorf("exit code %d:\n%s", code, d.log)
	}
}
