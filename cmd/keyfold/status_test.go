package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/service/status"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
	"keyfold/source/vector/openai"
)

// watched is an installation with all servers and one worker, and what `status` says of it.
type watched struct {
	*apiStack
	t      *testing.T
	broker *rabbittest.Broker
	store  *mongotest.Server
	worker *daemon
	outbox string // file of SQLite
	pages  string // address of a dashboard that names each fault, too; "": there is none

	searches int // so far
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	t.Parallel()
	return watchedAt(t, rabbittest.Shared(t))
}

// watchedAt has a broker that the test may end.
func watchedAt(t *testing.T, broker *rabbittest.Broker) *watched {
	t.Helper()
	store, file := mongotest.Start(t), filepath.Join(t.TempDir(), "outbox.db")
	w := &watched{t: t, broker: broker, store: store, outbox: file, apiStack: &apiStack{
		stack: &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), products: sample.Products(), history: profile.Mass},
		api:   embedtest.Start(t, embedtest.Config{Dimensions: dimensions, Model: openai.DefaultModel, Key: apiKey, Seed: 7}),
		more:  []string{"--retry-delay=50ms", "--max-retries=5", "--database-url=sqlite://" + file},
	}}
	w.withRedis(t)
	w.setUpAll()
	w.worker = w.work(t, quick).ready()
	return w
}

func (w *watched) setUpAll() {
	w.t.Helper()
	if code, _, errs := w.run(w.t, "", "setup"); code != 0 {
		w.t.Fatal(errs)
	}
	if code, _, errs := w.run(w.t, catalogue(w.t, w.products), "products", "import", "-", "--embed"); code != 0 {
		w.t.Fatal(errs)
	}
}

// call returns the arguments of `status`.
func (w *watched) call(more ...string) []string {
	address := adminAddr.FindStringSubmatch(w.worker.log.String())[1]
	return append([]string{"status", "--rabbitmq-management-url", w.broker.ManagementURL(), "--processes", address}, more...)
}

// look runs `status` in both forms, which agree, and returns the screen and the report.
func (w *watched) look(more ...string) (code int, screen string, r status.Report) {
	w.t.Helper()
	code, out, errs := w.run(w.t, "", w.call(append(more, "-o", "json")...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		w.t.Fatalf("exit code %d: %v\n%s%s", code, err, out, errs)
	}
	if failed := code != 0; failed != (len(r.Problems) > 0) {
		w.t.Errorf("exit code %d with %d problems", code, len(r.Problems))
	}
	code, screen, _ = w.run(w.t, "", w.call(more...)...)
	return code, screen, r
}

// shows waits until status exits with 1 and its screen names all of the words, and then until the
// dashboard's overview does.
func (w *watched) shows(fault string, words []string, more ...string) {
	w.t.Helper()
	eventually(w.t, "status shows: "+fault, func() error {
		code, screen, _ := w.look(more...)
		_, problems, _ := strings.Cut(screen, "NEEDS A PERSON")
		for _, word := range words {
			if !strings.Contains(problems, word) {
				return fmt.Errorf("no %q (exit code %d) in\n%s", word, code, screen)
			}
		}
		if code != cli.ExitFailure {
			return fmt.Errorf("exit code %d", code)
		}
		return nil
	})
	if w.pages != "" {
		overviewNames(w.t, w.pages, fault, words...)
	}
}

// during has a fault as a test of its own.
func (w *watched) during(fault string, lasts func()) {
	of := w.t
	of.Run(fault, func(t *testing.T) {
		w.t = t
		lasts()
	})
	w.t = of
}

// wellAgain waits until nothing needs a person. Meanwhile searches come: a worker learns by them
// that the API answers again, also where a busy machine had it answer late.
func (w *watched) wellAgain() {
	w.t.Helper()
	eventually(w.t, "nothing needs a person", func() error {
		var searches [][]byte
		for range 5 {
			w.searches++
			searches = append(searches, event(int32(w.searches%100+1), profile.Search, fmt.Sprint("white socks, size ", w.searches), hourAgo(), fmt.Sprint("socks ", w.searches)))
		}
		w.publish(w.t, searches...)
		if code, screen, _ := w.look(); code != 0 || !strings.Contains(screen, "Nothing needs a person.") {
			return fmt.Errorf("exit code %d\n%s", code, screen)
		}
		return nil
	})
}

// Each fault is named with its cure, and only while it lasts, by the command and by the dashboard's
// first page.
//
// Promise(monitoring/status): `keyfold status` names each fault with its cure, and only while it
// lasts.
// Promise(dashboard/causes)
func TestStatusNamesEachFault(t *testing.T) {
	w := newWatched(t)
	w.publish(t, sample.Events(sample.DefaultConfig(50))...)
	eventually(t, "events are folded", func() error {
		if n := w.worker.metric(`keyfold_events_total{outcome="folded"}`); n < 50 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	w.wellAgain()
	var screen string
	var r status.Report
	eventually(t, "the broker's statistics have nothing unacknowledged", func() error {
		_, screen, r = w.look()
		if q := r.Queues[0]; q.Name != rabbit.DefaultNames().Queue || q.Consumers == 0 || q.Unacknowledged == nil || *q.Unacknowledged != 0 {
			return fmt.Errorf("the first queue is told as %+v", q)
		}
		return nil
	})
	t.Logf("a quiet installation:\n%s", screen)
	if len(r.Processes) != 1 || !r.Processes[0].Ready || r.Processes[0].Lag99 == nil || strings.Join(r.Processes[0].Roles, " ") != "worker" {
		t.Errorf("the worker is told as %+v", r.Processes)
	}
	if r.Outbox == nil || len(r.Servers) != 4 {
		t.Errorf("the report is %+v", r)
	}

	_, w.pages = w.startDashboard()
	w.during("poison stream", w.poison)
	w.during("embedding API failing", w.embeddingsAway)
	w.during("outbox stuck", w.outboxWaits)
	w.during("Redis down", w.redisAway)
	w.during("store down", w.storeAway)
	w.during("no worker", w.workerGone)
	w.pages = "" // it has the broker's own address
	w.shows("the broker is away", []string{"✗ RabbitMQ: RabbitMQ does not listen at its address; check that it runs, and that RABBITMQ_DSN has its host and port"}, "--rabbitmq-dsn=amqp://guest:guest@127.0.0.1:1/")
}

func (w *watched) poison() {
	var bodies [][]byte
	for i := range 11 {
		bodies = append(bodies, fmt.Appendf(nil, `{"user_id": %d}`, i))
	}
	w.publish(w.t, bodies...)
	w.shows("dead letters", []string{"✗ dead letters: 11 dead letters of profiles", "`keyfold failed stats`", "RUNBOOK.md#keyfolddeadletterswaiting"})
	if code, _, errs := w.run(w.t, "", "dlq", "discard", "--yes"); code != 0 {
		w.t.Fatal(errs)
	}
	w.wellAgain()
}

func (w *watched) embeddingsAway() {
	w.api.SetFaults(embedtest.Faults{Status: http.StatusServiceUnavailable, Message: "overloaded"})
	n := 0
	eventually(w.t, "the breaker of the API opens", func() error {
		n++
		w.publish(w.t, event(int32(n), profile.Search, fmt.Sprint("green boots, size ", n), hourAgo(), fmt.Sprint("boots ", n)))
		if open := w.worker.metric(`keyfold_breaker_open{dependency="embedding_api"}`); open != 1 {
			return errors.New("closed")
		}
		return nil
	})
	w.shows("the embedding API is away", []string{"answered 503: overloaded", "see its log, or ask its operator", "RUNBOOK.md#requests-fail"})
	w.api.SetFaults(embedtest.Faults{})
	w.wellAgain()
}

func (w *watched) outboxWaits() {
	db, err := sql.Open("sqlite", w.outbox)
	must.OK(w.t, err)
	defer db.Close()
	exec := func(statement string, args ...any) {
		w.t.Helper()
		_, err := db.Exec(statement, args...)
		must.OK(w.t, err)
	}
	api := startDaemon(w.t, w.flags(w.args("ingest", "--http-addr=127.0.0.1:0")...)...).ready()
	api.accepted(sample.Events(sample.DefaultConfig(2))[:2]...)
	if code := api.stop(); code != 0 {
		w.t.Fatalf("ingest ended with %d", code)
	}
	exec("UPDATE user_interactions SET created_at = ? WHERE id = 1", time.Now().Add(-150*time.Second).UTC().Format("2006-01-02 15:04:05.000"))
	exec("UPDATE user_interactions SET failed_at = created_at, last_error = 'no' WHERE id = 2")
	w.shows("the outbox is not published", []string{
		"✗ outbox: 1 event is not published, the oldest after ", "`keyfold relay`", "✗ outbox: 1 row is set aside", "`keyfold failed list --in sql`",
	})
	exec("DELETE FROM user_interactions")
	w.wellAgain()
}

func (w *watched) redisAway() {
	w.redis.Kill()
	w.shows("Redis is away", []string{"✗ Redis: Redis ", "REDIS_URL"})
	must.OK(w.t, w.redis.Boot())
	w.wellAgain()
}

func (w *watched) storeAway() {
	must.OK(w.t, w.store.RefuseConnections(0), w.store.Disconnect())
	w.publish(w.t, event(1, profile.ProductView, 7, hourAgo(), "while the store is away"))
	w.shows("the store is away", []string{"✗ MongoDB: MongoDB ", "MONGODB_URI", "not ready: store: away since", "no process consumes from"})
	must.OK(w.t, w.store.AcceptConnections())
	w.wellAgain()
}

func (w *watched) workerGone() {
	if code := w.worker.stop(); code != 0 {
		w.t.Fatalf("the worker ended with %d", code)
	}
	w.publish(w.t, event(2, profile.ProductView, 7, hourAgo(), "without a worker"))
	w.shows("no worker runs", []string{"✗ workers: no process consumes from user_embedding_updates, where 1 message is ready", "the process does not answer", "start workers"})
}

// A broker that gathers statistics counts its workers; partitions are one line.
//
// Promise(monitoring/status, partitions/setup-killed)
func TestStatusOfPartitions(t *testing.T) {
	t.Parallel()
	broker := rabbittest.SharedWithStatistics(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t, "--partitions=4")
	s.work(t, quick, "--partitions=4", "--worker-partitions=0-3").ready()
	stage := startDaemon(t, append([]string{"partition"}, s.flags()...)...)
	stage.ready()
	eventually(t, "the worker is counted", func() error {
		code, out, errs := s.run(t, "", "status", "--partitions=4", "--rabbitmq-management-url", broker.ManagementURL())
		for _, want := range []string{"1 worker at the broker", "profiles: events (5 queues)", "Nothing needs a person."} {
			if code != 0 || !strings.Contains(out, want) {
				return fmt.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errs)
			}
		}
		return nil
	})
	names := rabbit.DefaultNames()
	ch, hangUp := s.channel(t)
	defer hangUp()
	inner := names.InnerExchange(names.Slots)
	must.OK(t, ch.QueueUnbind(names.PartitionQueue(1), names.SlotKey(5), inner, nil))
	must.OK(t, ch.QueueBind(names.PartitionQueue(3), names.SlotKey(6), names.Slots, false, nil))
	eventually(t, "a slot without a queue and one with two are named", func() error {
		code, out, _ := s.run(t, "", "status", "--partitions=4", "--rabbitmq-management-url", broker.ManagementURL())
		for _, want := range []string{
			"no partition takes the events of slots 05: they wait in user_embedding_updates.common",
			"events of slots 06 go to two queues", "run `keyfold setup --partitions 4`",
		} {
			if code != 1 || !strings.Contains(out, want) {
				return fmt.Errorf("exit code %d, no %q in\n%s", code, want, out)
			}
		}
		return nil
	})
	must.OK(t, ch.QueueUnbind(names.PartitionQueue(3), names.SlotKey(6), names.Slots, nil))
	s.setUp(t, "--partitions=4")
	eventually(t, "setup has mended it", func() error {
		if code, out, _ := s.run(t, "", "status", "--partitions=4", "--rabbitmq-management-url", broker.ManagementURL()); code != 0 {
			return errors.New(out)
		}
		return nil
	})
	// As where setup is killed.
	must.OK(t, ch.QueueUnbind(names.LayoutExchange(), names.BoundKey(9), names.LayoutExchange(), nil))
	if code, out, errs := s.run(t, "", "config", "check", "--connect", "--partitions=4"); code != 1 || !strings.Contains(out, "of 64 slots 1 are not bound to their partition ([9]): a setup was interrupted") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
}

// The broker knows the time of a message that came back from a worker; one that never left
// may lie on its disk, where the broker reads none.
func TestStatusTellsTheOldest(t *testing.T) {
	t.Parallel()
	broker := rabbittest.SharedWithStatistics(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	s.publish(t, event(1, profile.ProductView, 7, hourAgo(), "taken and not acknowledged"))
	ch, hangUp := s.channel(t)
	if _, taken, err := ch.Get(rabbit.DefaultNames().Queue, false); err != nil || !taken {
		t.Fatalf("the message is taken: %v, %v", taken, err)
	}
	hangUp()
	eventually(t, "the age of the first message is told", func() error {
		_, out, errs := s.run(t, "", "status", "-o", "json", "--rabbitmq-management-url", broker.ManagementURL())
		var r status.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			return fmt.Errorf("%w: %s%s", err, out, errs)
		}
		if age := r.Queues[0].OldestSeconds; age == nil || *age < 3600 || *age > 7200 {
			return errors.New(out)
		}
		return nil
	})
}

// What cannot be looked at is a problem with its cure, and no secret is part of it.
//
// Promise(monitoring/status)
func TestStatusCannotLook(t *testing.T) {
	s := newStack(t)
	s.work(t, quick).ready()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) }))
	defer refusing.Close()
	withUser := func(url string) string { return strings.Replace(url, "http://", "http://ops:s3cret@", 1) }
	for _, c := range []struct{ flag, says string }{
		{"--rabbitmq-management-url=" + withUser(other.URL), "management answers 404 Not Found"},
		{"--rabbitmq-management-url=" + withUser(refusing.URL), "name a user with the tag monitoring"},
		{"--rabbitmq-management-url=http://ops:s3cret@127.0.0.1:1", "RABBITMQ_MANAGEMENT_URL has its host and port"},
		{"--processes=" + other.Listener.Addr().String(), "is it the ADMIN_ADDR of a process of keyfold?"},
		{"--processes=worker.invalid:9090", "the name stands for no process now"},
	} {
		code, out, errs := s.run(t, "", "status", c.flag)
		if code != cli.ExitFailure || !strings.Contains(out, c.says) || strings.Contains(out+errs, "s3cret") {
			t.Errorf("%s: exit code %d, want %q in\n%s%s", c.flag, code, c.says, out, errs)
		}
	}
}

// --watch looks until it is told to stop; a later look tells the time to profiles since the
// one before.
//
// Promise(monitoring/status)
func TestStatusWatch(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	s.publish(t, sample.Events(sample.DefaultConfig(20))...)
	eventually(t, "events are folded", func() error {
		if d.metric(`keyfold_events_total{outcome="folded"}`) == 0 {
			return errors.New("none")
		}
		return nil
	})
	address := adminAddr.FindStringSubmatch(d.log.String())[1]
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := net.Pipe()
	ended := make(chan int, 1)
	go func() {
		args := s.flags("status", "--watch", "--every=10ms", "-o", "json", "--processes", address)
		ended <- run(ctx, args, cli.Streams{Stdin: strings.NewReader(""), Stdout: write, Stderr: io.Discard})
		write.Close()
	}()
	first, quiet := true, false
	for lines := bufio.NewScanner(read); !quiet && lines.Scan(); {
		var r status.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if len(r.Processes) != 1 || first && r.Processes[0].Lag99 == nil || strings.Join(r.Processes[0].Roles, " ") != "worker" {
			t.Fatalf("the first look says %s", lines.Text())
		}
		first, quiet = false, r.Processes[0].Lag99 == nil // once no event was folded between two looks
	}
	if !quiet {
		t.Error("the watch ended by itself")
	}
	stop()
	read.Close()
	if code := <-ended; code != 0 {
		t.Errorf("the watch ended with %d", code)
	}
}
