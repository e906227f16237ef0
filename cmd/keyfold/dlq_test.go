package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/sample"
)

// buried is a dead letter to be: an event of a reason.
type buried struct {
	body      []byte
	id        string // the AMQP property
	reason    string
	errors    []string
	at        time.Time
	firstSeen time.Time
	headers   amqp.Table
}

// bury puts letters into the dead-letter queue as a worker does.
func (s *stack) bury(t *testing.T, all ...buried) {
	t.Helper()
	p := rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("test"), "dead letters", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer p.Close(ctx)
	letters := make([]consume.Letter, len(all))
	for i, b := range all {
		for _, text := range b.errors {
			letters[i].Failures = append(letters[i].Failures, rabbit.Failure{At: engine.MillisOf(b.at), Err: fmt.Errorf("%s", text)})
		}
		letters[i].Reason, letters[i].Retries = b.reason, len(b.errors)-1
		letters[i].FirstSeen = engine.MillisOf(b.firstSeen)
		letters[i].Message = &rabbit.Original{Message: rabbit.Message{
			Body: b.body, ID: b.id, Headers: b.headers, Exchange: rabbit.DefaultNames().Exchange, Timestamp: b.at, Priority: 5,
		}}
	}
	for len(letters) > 0 {
		n := min(500, len(letters))
		queue := deadletter.Queue{Publisher: p, Names: rabbit.DefaultNames(), Host: "test-host"}
		for _, err := range queue.Store(ctx, letters[:n]) {
			must.OK(t, err)
		}
		letters = letters[n:]
	}
}

// given makes letters of bodies whose retries ran out an hour ago.
func given(bodies [][]byte) []buried {
	all := make([]buried, len(bodies))
	then := time.Now().Add(-time.Hour)
	for i, body := range bodies {
		e, err := profile.ParseEvent(body, time.Now())
		if err != nil {
			panic(err)
		}
		all[i] = buried{
			body: body, id: e.MessageID, reason: engine.ReasonRetriesExhausted,
			errors: []string{"timeout", "timeout again"}, at: then, firstSeen: then,
		}
	}
	return all
}

// dump reads a queue without taking anything.
func (s *stack) dump(t *testing.T, queue string) []amqp.Delivery {
	t.Helper()
	ch, hangUp := s.channel(t)
	defer hangUp()
	var all []amqp.Delivery
	for {
		d, ok, err := ch.Get(queue, false)
		must.OK(t, err)
		if !ok {
			return all
		}
		all = append(all, d)
	}
}

func idsOf(all []amqp.Delivery) []string {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].MessageId
	}
	return ids
}

// dlq runs a dlq command that is to succeed and returns its output.
func (s *stack) dlq(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := s.run(t, "", append([]string{"dlq"}, args...)...)
	if code != 0 {
		t.Fatalf("dlq %q: exit code %d: %s", args, code, errs)
	}
	return out
}

// listed returns the ids `dlq list` shows.
func (s *stack) listed(t *testing.T, args ...string) (ids []string) {
	t.Helper()
	for line := range strings.Lines(s.dlq(t, append([]string{"list", "-o", "json"}, args...)...)) {
		var l struct{ ID string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		ids = append(ids, l.ID)
	}
	return ids
}

var failed, replayable = rabbit.DefaultNames().DeadLetters, rabbit.DefaultNames().Queue

// mixed is one letter of each kind.
func (s *stack) mixed(t *testing.T) {
	now := time.Now()
	s.bury(t,
		buried{
			body: event(7, profile.ProductView, 1, now.Add(-5*time.Hour), "view-1"), id: "view-1", reason: "retries_exhausted",
			errors: []string{"store: connection reset", "store: TIMEOUT"}, at: now.Add(-4 * time.Hour), firstSeen: now.Add(-5 * time.Hour),
		},
		buried{
			body: event(8, profile.Search, "red mug", now.Add(-time.Hour), "search-1"), id: "search-1", reason: "vector_not_finite",
			errors: []string{"NaN"}, at: now.Add(-time.Hour), firstSeen: now.Add(-time.Hour),
		},
		buried{
			body: []byte("no \x1b[31mJSON"), id: "malformed-1", reason: engine.ReasonMalformedJSON,
			errors: []string{"body: found \"no\""}, at: now.Add(-time.Hour), firstSeen: now.Add(-time.Hour),
		},
		buried{
			body: []byte(`{"user_id":9,"event_type":"dance"}`), reason: engine.ReasonUnknownEventType,
			errors: []string{"event_type"}, at: now, firstSeen: now,
		},
	)
	s.raw(t, "foreign-1", `{"somebody":"else's"}`)
	s.raw(t, "foreign-2", "\x00\xff")
	s.raw(t, "broken-1", `{"original_message":{"user_id":"x"},"failure_info":{"retry_count":"many","worker_host":"h"}}`)
}

// raw puts a body into the dead-letter queue as it is.
func (s *stack) raw(t *testing.T, id, body string) {
	t.Helper()
	p := rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("test"), "raw", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	defer p.Close(t.Context())
	must.OK(t, p.Publish(t.Context(), []rabbit.Message{{RoutingKey: failed, ID: id, Body: []byte(body)}})[0])
}

// Looking changes nothing: the queue is as it was, in its order, whatever is in it.
func TestDlqLooking(t *testing.T) {
	s := newStack(t)
	s.mixed(t)
	before := idsOf(s.dump(t, failed))
	table := s.dlq(t, "list")
	for _, want := range []string{"view-1", "retries_exhausted", "malformed_json", "dance", "not_a_letter", "store: TIMEOUT", "  4h  ", "ERROR"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %s:\n%s", want, table)
		}
	}
	if lines := strings.Count(table, "\n"); lines != 8 {
		t.Errorf("%d lines:\n%s", lines, table)
	}
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"--user=7", []string{"view-1"}},
		{"--type=search", []string{"search-1"}},
		{"--type=unknown", []string{"malformed-1", "foreign-1", "foreign-2", "broken-1"}},
		{"--error=timeout", []string{"view-1"}},
		{"--error=malformed", []string{"malformed-1"}},
		{"--failed-after=2h --failed-before=30m", []string{"search-1", "malformed-1"}},
		{"--failed-before=3h", []string{"view-1"}},
		{"--limit=2", []string{"view-1", "search-1"}},
		{"--error=failure_info", []string{"broken-1"}},
		{"--user=7 --type=search", nil},
	} {
		if got := s.listed(t, strings.Fields(tc.args)...); !slices.Equal(got, tc.want) {
			t.Errorf("list %s: %q, want %q", tc.args, got, tc.want)
		}
	}
	dancer := s.listed(t, "--type=dance") // a type that no event may have
	if len(dancer) != 1 || !strings.HasPrefix(dancer[0], deadletter.DigestPrefix) {
		t.Fatalf("--type=dance: %q", dancer)
	}
	digest := strings.TrimPrefix(dancer[0], deadletter.DigestPrefix)
	for _, id := range []string{digest, digest[:5], dancer[0][:12]} {
		if show := s.dlq(t, "show", id); !strings.Contains(show, dancer[0]) {
			t.Errorf("show %s:\n%s", id, show)
		}
	}
	for args, want := range map[string]string{
		"--limit=5": "5 of 7 dead letters; --limit 0 lists all\n", "--limit=0": "", "--type=clik": "0 of 7 dead letters match; keyfold failed stats counts them by reason and type\n",
		"--type=search --limit=1": "2 of 7 dead letters were read; --limit 0 lists all that match\n", "--limit=5 -o json": "",
	} {
		if _, _, errs := s.run(t, "", append([]string{"dlq", "list"}, strings.Fields(args)...)...); errs != want {
			t.Errorf("list %s says %q, want %q", args, errs, want)
		}
	}
	if show := s.dlq(t, "show", "sear"); !strings.Contains(show, `"search_phrase": "red mug"`) || !strings.Contains(show, "vector_not_finite") {
		t.Errorf("show:\n%s", show)
	}
	if show := s.dlq(t, "show", "malformed-1"); strings.Contains(show, "\x1b") || !strings.Contains(show, "base64: bm8gG1szMW1KU09O") {
		t.Errorf("show of what is no JSON: %q", show)
	}
	for _, id := range []string{"foreign-1", "foreign-2", "broken-1", "letter-"} {
		s.dlq(t, "show", id)
		if out := s.dlq(t, "show", "-o", "json", id); !json.Valid([]byte(out)) {
			t.Errorf("show %s: %s", id, out)
		}
	}
	if code, _, errs := s.run(t, "", "dlq", "show", "foreign"); code != 1 || !strings.Contains(errs, "foreign-1, foreign-2") {
		t.Errorf("an ambiguous start: %d %s", code, errs)
	}
	var stats struct {
		Letters        int
		Reasons        map[string]int `json:"by_reason"`
		Types          map[string]int `json:"by_type"`
		Oldest, Newest *time.Time
	}
	must.OK(t, json.Unmarshal([]byte(s.dlq(t, "stats", "-o", "json")), &stats))
	if stats.Letters != 7 || stats.Reasons["not_a_letter"] != 2 || stats.Types["search"] != 1 || !stats.Newest.After(*stats.Oldest) {
		t.Errorf("stats %+v", stats)
	}
	if text := s.dlq(t, "stats"); !strings.Contains(text, "7 dead letters") {
		t.Errorf("stats:\n%s", text)
	}
	if after := idsOf(s.dump(t, failed)); !slices.Equal(before, after) {
		t.Errorf("the queue was %q and is %q", before, after)
	}
	// What cannot be folded is neither replayed nor touched.
	if out := s.dlq(t, "replay", "-o", "json"); !strings.Contains(out, `"replayed":2,"skipped_malformed":3,"skipped_foreign":2,"failed":0`) {
		t.Errorf("replay: %s", out)
	}
	if got := s.listed(t); len(got) != 5 || got[0] != "malformed-1" || !slices.Equal(got[2:], []string{"foreign-1", "foreign-2", "broken-1"}) {
		t.Errorf("left: %q", got)
	}
}

// A replayed event is the original, with no trace of its failure but the time it
// was first seen.
//
// Promise(event/replay)
func TestDlqReplayedMessage(t *testing.T) {
	s := newStack(t)
	seen := time.UnixMilli(1770733800123)
	body := append(append([]byte(" \n"), event(7, profile.ProductView, 1, time.Now(), "view-1")...), '\t', ' ')
	s.bury(t,
		buried{
			body: body, id: "view-1", reason: "retries_exhausted", errors: []string{"no"}, at: time.Now(), firstSeen: seen,
			headers: amqp.Table{"trace": "abc", "x-death": "forged", rabbit.HeaderAttempts: int64(5), "keyfold-errors": "x"},
		},
		buried{body: []byte("\xffno"), id: "bad", reason: engine.ReasonInvalidUTF8, errors: []string{"no"}, at: time.Now(), firstSeen: seen})
	s.dlq(t, "replay", "view-1")
	s.dlq(t, "replay", "--error", "utf8", "--force")
	got := s.dump(t, replayable)
	if len(got) != 2 || s.depth(t, failed) != 0 {
		t.Fatalf("%d replayed", len(got))
	}
	want := amqp.Table{"trace": "abc", rabbit.HeaderAttempts: int64(0), rabbit.HeaderFirstSeen: seen.UnixMilli()}
	if d := got[0]; string(d.Body) != string(body) || d.MessageId != "view-1" || d.RoutingKey != "user.embedding.product_view" ||
		d.Exchange != "user_events" || d.DeliveryMode != amqp.Persistent || d.Priority != 5 || !maps.Equal(d.Headers, want) {
		t.Errorf("replayed %+v", d)
	}
	if d := got[1]; string(d.Body) != "\xffno" || d.Headers[rabbit.HeaderFirstSeen] != nil {
		t.Errorf("replayed by force %+v", d)
	}
}

// Replay folds each event once, however often it is replayed.
//
// Promise(event/replay): A replayed dead letter has its original id and no attempts; a replay that is
// killed or repeated loses and doubles nothing.
func TestDlqReplayFoldsOnce(t *testing.T) {
	s := newStack(t)
	bodies := sample.Events(sample.DefaultConfig(30))
	letters := given(bodies)
	s.bury(t, letters...)
	if out := s.dlq(t, "replay", "--dry-run"); !strings.Contains(out, fmt.Sprintf("would replay %d,", len(bodies))) {
		t.Error(out)
	}
	if n := s.depth(t, failed); n != len(bodies) || s.depth(t, replayable) != 0 {
		t.Fatalf("the dry run left %d letters", n)
	}
	d := s.work(t, quick).ready()
	if out := s.dlq(t, "replay"); !strings.HasPrefix(out, fmt.Sprintf("replayed %d, skipped 0, failed 0", len(bodies))) {
		t.Error(out)
	}
	o := s.expect(t, bodies)
	s.settled(t, o)
	s.bury(t, letters...)
	s.dlq(t, "replay")
	eventually(t, "the second replay is seen", func() error {
		if n := d.metric(`keyfold_events_total{outcome="duplicate"}`); n < int64(len(bodies)) {
			return fmt.Errorf("%d duplicates", n)
		}
		return nil
	})
	s.settled(t, o)
	if n := s.depth(t, failed); n != 0 {
		t.Errorf("%d letters are left", n)
	}
	d.stop()
	s.emptied(t)
}

// Past the horizon an event comes back with that reason, and only force folds it.
//
// Promise(event/past-horizon)
func TestDlqReplayPastHorizon(t *testing.T) {
	s := newStack(t)
	first := s.work(t, quick).ready()
	now := time.Now()
	bodies := [][]byte{event(7, profile.ProductView, 1, now.Add(-time.Minute), "live")}
	s.publish(t, bodies...)
	s.settled(t, s.expect(t, bodies))
	first.stop()
	// As after thousands of events: ids were dropped, the newest of just now.
	_, err := s.collection(t).UpdateOne(t.Context(), bson.D{{Key: "user_id", Value: int32(7)}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "applied_floor", Value: time.Now()}}}})
	must.OK(t, err)
	s.work(t, quick).ready()
	late := given([][]byte{event(7, profile.ProductView, 1, now.Add(-time.Hour), "late")})
	s.bury(t, late...)
	s.dlq(t, "replay")
	eventually(t, "it comes back", func() error {
		if got := s.listed(t, "--error=past_horizon"); !slices.Equal(got, []string{"late"}) {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
	if out := s.dlq(t, "replay", "--dry-run"); !strings.Contains(out, "see --force") {
		t.Error(out)
	}
	s.dlq(t, "replay", "--force")
	s.settled(t, s.expect(t, append(bodies, late[0].body)))
}

// A replay that is killed half-way loses nothing, and one more run ends it.
//
// Promise(event/replay)
func TestDlqReplayKilled(t *testing.T) {
	s := newStack(t)
	bodies := sample.Events(sample.DefaultConfig(40))
	letters := given(bodies)
	s.bury(t, letters...)
	ids := map[string]bool{}
	for _, l := range letters {
		ids[l.id] = true
	}
	program, log := asProcess(append([]string{"dlq", "replay", "--rate=50/s"}, s.flags()...)...)
	must.OK(t, program.Start())
	eventually(t, "some are replayed", func() error {
		if n := s.depth(t, replayable); n < len(bodies)/10 {
			return fmt.Errorf("%d, %s", n, log)
		}
		return nil
	})
	must.OK(t, program.Process.Kill())
	if err := program.Wait(); err == nil {
		t.Fatalf("it had ended by itself: %s", log)
	}
	eventually(t, "the broker noticed, and nothing is lost", func() error {
		dead, live := idsOf(s.dump(t, failed)), idsOf(s.dump(t, replayable))
		left := map[string]bool{}
		for _, id := range append(dead, live...) {
			left[id] = true
		}
		if len(left) != len(ids) {
			return fmt.Errorf("%d ids of %d are left", len(left), len(ids))
		}
		if len(dead) == 0 {
			t.Fatal("all was replayed: the kill came too late to prove anything")
		}
		return nil
	})
	s.work(t, quick).ready()
	s.dlq(t, "replay")
	s.settled(t, s.expect(t, bodies))
	if n := s.depth(t, failed); n != 0 {
		t.Errorf("%d letters are left", n)
	}
}

// An event no queue takes stays a dead letter, and the exit code tells.
func TestDlqReplayFails(t *testing.T) {
	s := newStack(t)
	s.bury(t, given([][]byte{event(7, profile.ProductView, 1, time.Now(), "view-1")})...)
	ch, hangUp := s.channel(t)
	defer hangUp()
	names := rabbit.DefaultNames()
	must.OK(t, ch.QueueUnbind(names.Queue, names.Bindings[0], names.Exchange, nil))
	code, out, errs := s.run(t, "", "dlq", "replay")
	if code != 1 || !strings.Contains(out, "failed 1") || !strings.Contains(errs, "keyfold setup") {
		t.Errorf("exit code %d, %s, %s", code, out, errs)
	}
	if got := s.listed(t); !slices.Equal(got, []string{"view-1"}) {
		t.Errorf("left: %q", got)
	}
}

// The rate is kept: the second letter is due long after the test's end.
func TestDlqReplayRate(t *testing.T) {
	s := newStack(t)
	s.bury(t, given(sample.Events(sample.DefaultConfig(10))[:30])...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := begin(ctx, "", s.flags("dlq", "replay", "--rate=0.0001/s")...)
	eventually(t, "a letter is replayed", func() error {
		if n := s.depth(t, replayable); n == 0 {
			return errors.New("none is")
		}
		return nil
	})
	stop()
	e := <-ended
	if n := s.depth(t, replayable); n != 1 {
		t.Errorf("%d were replayed at one in three hours: %+v", n, e)
	}
}

func TestDlqDiscard(t *testing.T) {
	s := newStack(t)
	s.mixed(t)
	if code, _, errs := s.run(t, "", "dlq", "discard", "--user=7"); code != cli.ExitUsage || !strings.Contains(errs, "--yes") {
		t.Errorf("without --yes: %d %s", code, errs)
	}
	if out := s.dlq(t, "discard", "--user=7", "--dry-run"); out != "1 dead letter would be discarded\n" {
		t.Error(out)
	}
	if code, _, _ := s.run(t, "", "dlq", "discard", "foreign", "--yes"); code != cli.ExitFailure {
		t.Errorf("an ambiguous start: %d", code)
	}
	if n := s.depth(t, failed); n != 7 {
		t.Fatalf("%d letters", n)
	}
	if out := s.dlq(t, "discard", "--yes", "foreign-2"); out != "1 dead letter discarded\n" {
		t.Error(out)
	}
	if out := s.dlq(t, "discard", "--yes", "--failed-after=2h"); out != "3 dead letters discarded\n" {
		t.Error(out)
	}
	if got := s.listed(t); !slices.Equal(got, []string{"view-1", "foreign-1", "broken-1"}) {
		t.Errorf("left: %q", got)
	}
	if n := s.depth(t, replayable); n != 0 {
		t.Errorf("%d were replayed", n)
	}
}
