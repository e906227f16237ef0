package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/report"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// benchUser is the first user of measurements.
const benchUser = 2_100_000_000

// Promise(monitoring/bench): `keyfold bench` writes new users of its own each time, from 2,100,000,000 on, and
// refuses a queue that is not empty; `--clean` erases them alone.
func TestBenchMeasuresAndCleans(t *testing.T) {
	s := newStack(t)
	at := time.Now().Add(-time.Hour)
	// The second user has an id as measurements have them, and is not one of theirs.
	own := [][]byte{event(17, profile.ProductView, 1, at, "a"), event(2_147_483_600, profile.ProductView, 2, at, "b")}
	s.publish(t, own[0])
	if code, _, errs := s.run(t, "", "bench"); code != 1 || !strings.Contains(errs, "1 message in the queue") || !strings.Contains(errs, "no process consumes") || !strings.Contains(errs, "--yes") {
		t.Errorf("with a message in the queue: code %d, %s", code, errs)
	}
	// Without a worker no event is folded. Those of such a measurement come later.
	_, out, errs := s.run(t, "", benchArgs("--yes", "--wait=1ms")...)
	var broken report.Report
	if err := json.Unmarshal([]byte(out), &broken); err != nil || broken.Median("", "published") != 25 || broken.Median("", "folded") != 0 || broken.Verdicts[3].Result == report.Pass {
		t.Errorf("without a worker: %v, %s, %s", err, out, errs)
	}
	s.work(t, quick).ready()
	store := s.open(t)

	page := filepath.Join(t.TempDir(), "bench.html")
	first := s.bench(t, "--report", page, fmt.Sprint("--processes=", os.Getpid()))
	if got, err := os.ReadFile(page); err != nil || len(got) == 0 {
		t.Errorf("the page has %d bytes: %v", len(got), err)
	}
	second := s.bench(t, "--yes")
	s.publish(t, own[1])
	eventually(t, "all events are folded", func() error {
		var events int64
		all := allProfiles(t, store)
		for user, p := range all {
			if user >= benchUser && user != 2_147_483_600 {
				events += p.EventCount
			}
		}
		if want := int64(25 + first.Median("", "published") + second.Median("", "published")); events != want || all[2_147_483_600] == nil {
			return fmt.Errorf("%d profiles, %d events of measurements, want %d", len(all), events, want)
		}
		return nil
	})
	if len(first.Series) < 2 {
		t.Errorf("%d series: want the queue's and those of a process", len(first.Series))
	}
	s.bury(t,
		buried{body: event(benchUser, profile.ProductView, 1, at, "bench-2100000000-999"), id: "bench-2100000000-999", reason: "timeout"},
		buried{body: event(17, profile.ProductView, 1, at, "late"), id: "late", reason: "timeout"})

	live := func() (all []int32) {
		for user, p := range allProfiles(t, store) {
			if user >= benchUser && !p.Erased() {
				all = append(all, user)
			}
		}
		return all
	}
	before := len(live())
	says := fmt.Sprintf(`{"dry_run":%%t,"users_erased":%d,"dead_letters_discarded":1}`+"\n", before-1)
	if out := s.answer(t, "--clean", "--dry-run", "-o", "json"); out != fmt.Sprintf(says, true) || len(live()) != before {
		t.Errorf("a dry run says %s, and %d of %d users are left", out, len(live()), before)
	}
	if out := s.answer(t, "--clean", "--yes", "-o", "json"); out != fmt.Sprintf(says, false) {
		t.Errorf("it says %s, want %s", out, says)
	}
	if left := live(); len(left) != 1 || left[0] != 2_147_483_600 {
		t.Errorf("users %v are left", left)
	}
	s.bench(t) // of users who are not erased
	all := allProfiles(t, store)
	if p := all[17]; p == nil || p.EventCount != 1 || p.Erased() {
		t.Errorf("user 17 has %+v", p)
	}
	if n := s.depth(t, rabbit.DefaultNames().DeadLetters); n != 1 {
		t.Errorf("%d dead letters are left, want another user's", n)
	}
}

// Measurements that are made at once count their own events alone, though they may have the
// same users.
func TestBenchTwiceAtOnce(t *testing.T) {
	s := newStack(t)
	s.work(t, quick).ready()
	one := []string{"bench", "--rate=50/s", "--for=500ms", "--users=5", "--wait=4m", "--yes"}
	other := begin(t.Context(), "", append(one, s.flags()...)...)
	for _, e := range []ended{<-begin(t.Context(), "", append(one, s.flags()...)...), <-other} {
		if e.code != 0 && !strings.Contains(e.errs, "is not met") {
			t.Errorf("code %d: %s", e.code, e.errs)
		}
	}
	var events int64
	for _, p := range allProfiles(t, s.open(t)) {
		events += p.EventCount
	}
	if events != 50 {
		t.Errorf("%d events are in profiles, want 25 of each measurement", events)
	}
	if out := s.answer(t, "--clean", "--dry-run", "-o", "json"); strings.Contains(out, `"users_erased":0`) {
		t.Error(out)
	}
}

// A measurement whose users are erased meanwhile, or that is interrupted, says so, and what it
// leaves behind.
func TestBenchWithoutAnEnd(t *testing.T) {
	s := newStack(t)
	s.work(t, quick).ready()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	for _, fault := range []struct {
		does func()
		says string
	}{
		{func() { s.answer(t, "--clean", "--yes") }, "was erased meanwhile"},
		{interrupt, "context canceled"},
	} {
		before := slices.Max(append(slices.Collect(maps.Keys(allProfiles(t, s.open(t)))), 0))
		done := begin(ctx, "", append([]string{"bench", "--for=1h", "--users=3", "--yes"}, s.flags()...)...)
		eventually(t, "an event is folded", func() error {
			for user := range allProfiles(t, s.open(t)) {
				if user > before {
					return nil
				}
			}
			return errors.New("no profile")
		})
		fault.does()
		if e := <-done; e.code != 1 || !strings.Contains(e.errs, fault.says) || !strings.Contains(e.errs, "Not measured; users 21") {
			t.Errorf("want %q: code %d, %s", fault.says, e.code, e.errs)
		}
	}
}

// A connection that the broker closes costs a measurement neither an event nor its end.
func TestBenchWithoutItsConnection(t *testing.T) {
	s := newStack(t)
	s.work(t, quick).ready()
	address, err := url.Parse(s.dsn)
	must.OK(t, err)
	done := begin(t.Context(), "", append([]string{"bench", "--rate=50/s", "--for=4s", "--users=5", "--wait=4m", "-o", "json"}, s.flags()...)...)
	eventually(t, "a connection is closed", func() error {
		if rabbittest.Shared(t).CloseConnections(t, strings.TrimPrefix(address.Path, "/"), "keyfold tool bench") == 0 {
			return errors.New("none is open")
		}
		return nil
	})
	e := <-done
	var r report.Report
	if err := json.Unmarshal([]byte(e.out), &r); err != nil || r.Median("", "folded") != 200 || r.Median("", "published") != 200 {
		t.Errorf("code %d, %v: %s%s", e.code, err, e.out, e.errs)
	}
}

// Events go to the partitions that the broker has, whatever RABBITMQ_PARTITIONS is.
func TestBenchOfPartitions(t *testing.T) {
	s := unsetStack(t)
	s.setUp(t, "--partitions=4")
	s.work(t, quick, "--partitions=4", "--worker-partitions=0-3").ready()
	s.bench(t)
	s.bench(t, "--partitions=4")
}

// With RABBITMQ_STREAMS events go to the streams, by their protocol, and the report says so.
func TestBenchOfStreams(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	vhost := broker.VHost(t)
	s := &stack{dsn: broker.DSN(vhost), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	flags := []string{"--streams=2", "--rabbitmq-stream-uri=" + rabbittest.StreamURI(broker.StreamAddress(), vhost)}
	s.setUp(t, flags[0])
	s.work(t, append(flags, quick)...).ready()
	for runs := range uint64(2) { // the second one's numbers are its own
		if r := s.bench(t, flags...); !slices.Contains(r.Notes, "published by the stream protocol") {
			t.Errorf("the notes are %q", r.Notes)
		}
		held := uint64(0)
		for _, row := range listStreams(t, s, flags) {
			held += row.End - row.First
		}
		if held != 25*(runs+1) {
			t.Errorf("the streams have %d events after %d runs", held, runs+1)
		}
	}
}

func benchArgs(args ...string) []string {
	return append([]string{"bench", "--rate=50/s", "--for=500ms", "--users=5", "-o", "json"}, args...)
}

// bench measures briefly. How long something took, and so the exit code, is the machine's.
func (s *stack) bench(t *testing.T, args ...string) *report.Report {
	t.Helper()
	code, out, errs := s.run(t, "", benchArgs(append(args, "--wait=4m")...)...)
	if code != 0 && !strings.Contains(errs, "is not met") {
		t.Fatalf("code %d: %s", code, errs)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(r.Latencies) != 1 || r.Latencies[0].Count != 25 || r.Median("", "folded") != 25 || r.Median("", "published") != 25 || r.Median("", "dead letters") != 0 || len(r.Verdicts) != 8 {
		t.Errorf("it reports %s", out)
	}
	return &r
}

// answer is what bench says with these arguments.
func (s *stack) answer(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := s.run(t, "", append([]string{"bench"}, args...)...)
	if code != 0 {
		t.Fatalf("bench %v: %s", args, errs)
	}
	return out
}

func TestBenchNeedsProducts(t *testing.T) {
	s := unsetStack(t)
	s.products = nil
	s.setUp(t)
	if code, _, errs := s.run(t, "", "bench", "--yes"); code != 1 || !strings.Contains(errs, "products import") {
		t.Errorf("code %d, %s", code, errs)
	}
}
