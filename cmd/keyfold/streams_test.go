package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"keyfold/cmd/keyfold/status"
	"keyfold/cmd/keyfold/streams"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// From setup to a rewind, by the commands: streams are made, read, shown, read again, and a
// host that cannot be reached is named.
func TestStreamCommands(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	vhost := broker.VHost(t)
	s := &stack{dsn: broker.DSN(vhost), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	flags := []string{"--streams=2", "--rabbitmq-stream-uri=" + rabbittest.StreamURI(broker.StreamAddress(), vhost)}
	command := func(args ...string) string {
		t.Helper()
		code, out, errs := s.run(t, "", append(args, flags...)...)
		if code != 0 {
			t.Fatalf("%v: code %d: %s", args, code, errs)
		}
		return out
	}
	s.setUp(t, flags[0])
	if out := command("setup"); !strings.Contains(out, "exchange user_event_streams, 2 streams: user_event_streams.1-0 to user_event_streams.1-1") {
		t.Errorf("setup says %s", out)
	}
	if out := command("config", "check", "--connect"); !strings.Contains(out, "streams") {
		t.Errorf("config check says %s", out)
	}
	store := s.open(t)
	s.work(t, append(flags, quick)...).ready()
	const events = 40
	var bodies [][]byte
	for i := range events {
		bodies = append(bodies, event(int32(i%8+1), profile.ProductView, 1, time.Now().Add(-time.Hour), fmt.Sprint("event ", i)))
	}
	s.publishAs(t, rabbit.DefaultNames().StreamMessage, bodies...)
	folded := func() (n int64) {
		for _, p := range allProfiles(t, store) {
			n += p.EventCount
		}
		return n
	}
	list := func() []streams.Row { return listStreams(t, s, flags) }
	eventually(t, "all events are folded, and settled by the positions", func() error {
		held, lag := uint64(0), uint64(0)
		rows := list()
		for _, r := range rows {
			held, lag = held+r.End-r.First, lag+r.Lag
		}
		if n := folded(); n != events || len(rows) != 2 || held != events || lag != 0 {
			return fmt.Errorf("%d folded; %+v", n, rows)
		}
		return nil
	})
	var report status.Report
	_, out, errs := s.run(t, "", append([]string{"status", "-o", "json"}, flags...)...)
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Streams) != 2 || report.Streams[0].End+report.Streams[1].End != events {
		t.Errorf("status says %+v, %v: %s", report.Streams, err, errs)
	}
	if _, out, _ := s.run(t, "", append([]string{"status"}, flags...)...); !strings.Contains(out, "2 streams") {
		t.Errorf("status says %s", out)
	}
	anew := append(flags[:2:2], "--mongodb-database=anew")
	if code, _, errs := s.run(t, "", "work", "--rebuild"); code == 0 || !strings.Contains(errs, "RABBITMQ_STREAMS is 0") {
		t.Errorf("work --rebuild without streams: code %d, %s", code, errs)
	}
	if code, _, errs := s.run(t, "", append([]string{"setup"}, anew...)...); code != 0 {
		t.Fatal(errs)
	}
	s.work(t, append(anew, quick, "--rebuild")...).ready()
	eventually(t, "another database has all that the log holds", func() error {
		lag := uint64(0)
		for _, r := range listStreams(t, s, anew) {
			lag += r.Lag
		}
		if lag > 0 {
			return fmt.Errorf("%d are not settled", lag)
		}
		return nil
	})
	if n, err := rabbit.Depth(t.Context(), s.dsn, "user_embedding_updates.rebuild.anew"); err != nil || n != 0 {
		t.Errorf("the queue of the rebuild has %d: %v", n, err)
	}
	if out := command("streams", "rewind", "--to=1h"); !strings.Contains(out, "is read again from offset 0 on") {
		t.Errorf("rewind says %s", out)
	}
	eventually(t, "all is settled again", func() error {
		for _, r := range list() {
			if r.Lag != 0 || r.Rewinds != 1 {
				return fmt.Errorf("%+v", r)
			}
		}
		return nil
	})
	if n := folded(); n != events {
		t.Errorf("%d events are folded after a rewind", n)
	}
	if out := command("streams", "list"); !strings.Contains(out, "user_event_streams.1-1") {
		t.Errorf("list says %s", out)
	}
	for args, want := range map[string]string{
		"rewind":                 "--to TIME, or --first",
		"rewind --to=soon":       "it must be a span such as 3h",
		"rewind --to=3h --first": "--to TIME, or --first",
	} {
		if code, _, errs := s.run(t, "", append(strings.Fields("streams "+args), flags...)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("streams %s: code %d, %s", args, code, errs)
		}
	}
	flags[1] = "--rabbitmq-stream-uri=rabbitmq-stream://guest:guest@127.0.0.1:1/"
	if code, out, errs := s.run(t, "", append([]string{"config", "check", "--connect"}, flags...)...); code == 0 || !strings.Contains(out+errs, "rabbitmq_stream") {
		t.Errorf("a closed port: code %d, %s%s", code, out, errs)
	}
}
