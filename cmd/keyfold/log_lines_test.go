package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// launch starts a command as a process with these variables and no others of keyfold's;
// stop ends it with SIGTERM and returns its exit code, or kills it at the test's end.
func launch(t *testing.T, env []string, args ...string) *daemon {
	t.Helper()
	program, log := asProcess(args...)
	program.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), asProgram + "=1"}, env)
	program.Stdout = log
	d := &daemon{t: t, log: log}
	must.OK(t, program.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = program.Wait() // the exit code tells
	}()
	d.stop = sync.OnceValue(func() int {
		_ = program.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = program.Process.Kill()
			<-ended
		}
		return program.ProcessState.ExitCode()
	})
	t.Cleanup(func() { d.stop() })
	return d
}

// Each line of an ingest, a relay and a worker, with normal events, one that is tried
// again and dead-lettered, and one that is broken, has a component, and each warning and
// error a hint. The lines about an event name it, and those of its retries the attempt
// and the delay.
//
// Promise(security/log-lines): Each log line has a component and the attributes of reference/logs.md; each
// warning and error a hint; retries attempt and delay.
func TestLogLines(t *testing.T) {
	t.Parallel()
	broker, store := rabbittest.Shared(t), mongotest.Start(t)
	st := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), products: sample.Products(), history: profile.Mass}
	st.setUp(t)
	s := st.with(t, newDatabase(t, outbox.MariaDB))
	match, err := bson.Marshal(bson.D{{Key: "user_id", Value: int32(42)}})
	must.OK(t, err)
	_, err = store.Inject(mongotest.Fault{WriteError: 11000, Namespace: "keyfold.user_embeddings", Match: match})
	must.OK(t, err)
	start := func(args ...string) *daemon {
		return launch(t, []string{"LOG_LEVEL=debug"}, s.flags(args...)...).ready()
	}
	daemons := map[string]*daemon{
		"ingest": start("ingest", "--http-addr=127.0.0.1:0"), "relay": start("relay"),
		"work": start("work", quick, "--retry-delay=20ms", "--max-retries=2"),
	}
	now := time.Now().Add(-time.Hour)
	daemons["ingest"].accepted(event(1, profile.ProductView, 1, now, "good"), event(42, profile.ProductView, 1, now, "unlucky"))
	if a := daemons["ingest"].post([]byte(`{"user_id":0}`)); a.Code != http.StatusBadRequest {
		t.Errorf("%d %s", a.Code, a.Text)
	}
	s.publish(t, []byte(`{"user_id":7,"event_type":"search"}`))
	s.settled(t, s.expect(t, [][]byte{event(1, profile.ProductView, 1, now, "good")}))
	eventually(t, "both are given up", func() error {
		if n := s.depth(t, rabbit.DefaultNames().DeadLetters); n != 2 {
			return fmt.Errorf("%d dead letters", n)
		}
		return nil
	})
	seen := map[string]int{}
	for name, d := range daemons {
		if code := d.stop(); code != 0 {
			t.Errorf("%s ended with %d", name, code)
		}
		for line := range strings.Lines(d.log.String()) {
			checkLogLine(t, name, line, seen)
		}
	}
	for what, n := range map[string]int{"retry": 2, "given up": 1, "malformed": 1} {
		if seen[what] != n {
			t.Errorf("%d lines of %q, want %d", seen[what], what, n)
		}
	}
	for _, component := range []string{"admin", "worker", "fold", "rabbit", "ingest"} {
		if seen[component] == 0 {
			t.Errorf("no line of %s", component)
		}
	}
	if t.Failed() {
		for name, d := range daemons {
			t.Logf("%s:\n%s", name, d.log)
		}
	}
}

// logLine is what lines have in common.
type logLine struct {
	Level, Msg, Component, Hint, Delay, Error string
	UserID                                    any    `json:"user_id"`
	MessageID                                 string `json:"message_id"`
	EventType                                 string `json:"event_type"`
	Attempt                                   int
}

// readLogLine returns a line, which has one component, and a hint where it warns.
func readLogLine(t *testing.T, of, line string) (l logLine) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		t.Errorf("%s: %v: %s", of, err, line)
	} else if l.Component == "" || strings.Count(line, `"component":`) != 1 || l.Hint == "" && (l.Level == "WARN" || l.Level == "ERROR") {
		t.Errorf("%s: no component, or no hint: %s", of, line)
	}
	return l
}

// checkLogLine judges a line, and counts it by its component and by what it tells.
func checkLogLine(t *testing.T, of, line string, seen map[string]int) {
	t.Helper()
	l := readLogLine(t, of, line)
	seen[l.Component]++
	named := l.UserID == 42.0 && l.MessageID == "unlucky" && l.EventType == "product_view" && l.Error != ""
	switch l.Msg {
	case "event retry scheduled":
		seen["retry"]++
		if !named || l.Attempt != seen["retry"] || l.Delay == "" || l.Component != "fold" {
			t.Errorf("%s: %s", of, line)
		}
	case "event dead-lettered: retries exhausted":
		seen["given up"]++
		if !named || l.Attempt != 3 || l.Component != "rabbit" {
			t.Errorf("%s: %s", of, line)
		}
	case "malformed event dead-lettered":
		seen["malformed"]++
		if l.MessageID == "" || l.Error == "" || l.Component != "rabbit" {
			t.Errorf("%s: %s", of, line)
		}
	}
}
