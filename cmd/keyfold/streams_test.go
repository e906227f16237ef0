package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/service/status"
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
	list := func() []status.Stream { return listStreams(t, s, flags) }
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
	if out := command("streams", "accept"); !strings.Contains(out, "no stream has changed") {
		t.Errorf("accept says %s", out)
	}
	if code, _, errs := s.run(t, "", append([]string{"streams", "accept", "--stream=user_event_streams.1-7"}, flags...)...); code != cli.ExitUsage || !strings.Contains(errs, "user_event_streams.1-0, user_event_streams.1-1") {
		t.Errorf("accept of an unknown stream: code %d, %s", code, errs)
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

// A stream that was deleted and made anew stops its worker, which names the command; accepted by
// two operators at once, all of it is folded, as the oracle does.
//
// Promise(streams/accept)
func TestStreamIsAccepted(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	vhost := broker.VHost(t)
	s := &stack{dsn: broker.DSN(vhost), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	flags := []string{"--streams=1", "--rabbitmq-stream-uri=" + rabbittest.StreamURI(broker.StreamAddress(), vhost)}
	s.setUp(t, flags[0])
	var bodies [][]byte
	publish := func(n int) {
		t.Helper()
		first := len(bodies)
		for i := range n {
			bodies = append(bodies, event(int32(i%8+1), profile.ProductView, 1, time.Now().Add(-time.Hour), fmt.Sprint("event ", first+i)))
		}
		s.publishAs(t, rabbit.DefaultNames().StreamMessage, bodies[first:]...)
	}
	w := s.work(t, append(flags, quick)...)
	w.ready()
	publish(60)
	s.settled(t, s.expect(t, bodies))
	eventually(t, "the position is stored", func() error {
		if rows := listStreams(t, s, flags); rows[0].Position != 60 {
			return fmt.Errorf("%+v", rows)
		}
		return nil
	})

	const name = "user_event_streams.1-0"
	channel, hangUp := s.channel(t)
	defer hangUp()
	_, err := channel.QueueDelete(name, false, false, false)
	must.OK(t, err)
	if code, _, errs := s.run(t, "", append([]string{"setup"}, flags...)...); code != 0 {
		t.Fatal(errs)
	}
	publish(40)
	eventually(t, "the worker names the command", func() error {
		if _, page := w.get("/readyz"); !strings.Contains(page, "keyfold streams accept") {
			return errors.New(page)
		}
		return nil
	})
	type row struct {
		Changed, Accepted bool
		From              uint64
		Epoch             int
	}
	accept := func(more ...string) row {
		var rows []row
		code, out, errs := s.run(t, "", slices.Concat([]string{"streams", "accept", "-o", "json"}, more, flags)...)
		if err := json.Unmarshal([]byte(out), &rows); err != nil || code != 0 || len(rows) != 1 {
			t.Errorf("accept: code %d, %v: %s", code, err, errs)
			return row{}
		}
		return rows[0]
	}
	if r := accept("--dry-run"); !r.Changed || r.Accepted || r.Epoch != 1 {
		t.Errorf("--dry-run says %+v", r)
	}
	if rows := listStreams(t, s, flags); rows[0].Position != 60 {
		t.Errorf("--dry-run has set the position: %+v", rows)
	}
	var done sync.WaitGroup
	var accepted atomic.Int64
	for range 2 {
		done.Go(func() {
			if r := accept("--stream=" + name); r.Accepted && r.Epoch == 1 && r.From == 0 {
				accepted.Add(1)
			}
		})
	}
	done.Wait()
	if n := accepted.Load(); n != 1 {
		t.Errorf("%d of two accepted it", n)
	}
	s.settled(t, s.expect(t, bodies))
	if r := accept(); r.Changed || r.Epoch != 1 {
		t.Errorf("afterwards it says %+v", r)
	}
}
