package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// One command erases a user's profile, rows and dead letters, says what queues
// still hold, and touches no other user.
//
// Promise(security/forget): `user forget` erases profile, rows and letters, says what queues still
// hold, may be repeated, and leaves no byte in an SQLite file.
// Promise(event/foreign-numbers)
func TestForgetErasesEverywhere(t *testing.T) {
	onEach(t, outbox.PostgreSQL, func(t *testing.T, s *shop) {
		at := time.Now().Add(-time.Hour)
		api := s.ingest(t)
		var bodies [][]byte
		for n := range 3 {
			bodies = append(bodies, event(17, profile.ProductView, n+1, at, fmt.Sprint("a", n)), event(18, profile.ProductView, n+1, at, fmt.Sprint("b", n)))
		}
		api.accepted(bodies...)
		s.allSent(t)
		first := s.work(t, quick).ready()
		s.settled(t, s.expect(t, bodies))
		if code := first.stop(); code != 0 {
			t.Fatalf("the worker ended with %d:\n%s", code, first.log)
		}
		s.bury(t,
			buried{body: event(17, profile.ProductView, 1, at, "late"), id: "a", reason: "timeout"},
			buried{body: []byte(`{"user_id":"17","event_type":"search"}`), id: "b", reason: "invalid_type"},
			buried{body: event(18, profile.ProductView, 1, at, "late"), id: "c", reason: "timeout"},
			buried{body: []byte(`no event`), id: "d", reason: "malformed_json"})
		s.publish(t, event(17, profile.ProductView, 9, at, "queued"))

		forget := func(want string) {
			t.Helper()
			var got, expected any
			must.OK(t, json.Unmarshal([]byte(s.must(t, "user", "forget", "17", "--yes", "-o", "json")), &got))
			must.OK(t, json.Unmarshal([]byte(want), &expected))
			g, _ := json.Marshal(got)
			if e, _ := json.Marshal(expected); string(g) != string(e) {
				t.Errorf("it says %s, want %s", g, e)
			}
		}
		dry := s.must(t, "user", "forget", "17", "--dry-run")
		for _, text := range []string{
			"user 17 would be erased", "profile              would be erased: 3 events", "stored interactions  3 would be deleted",
			"dead letters         2 would be discarded; 1 in which no user", "queued messages      1 of all users",
		} {
			if !strings.Contains(dry, text) {
				t.Errorf("%q is missing in:\n%s", text, dry)
			}
		}
		const delays = `"user_embedding_updates.retry.5000":0,"user_embedding_updates.retry.10000":0,"user_embedding_updates.retry.20000":0,` +
			`"user_embedding_updates.retry.40000":0,"user_embedding_updates.retry.60000":0`
		forget(`{"user_id":17,"dry_run":false,"erased":true,"profile":"erased","interactions_deleted":3,"archived_letters_deleted":0,
			"archived_letters_of_unreadable_users":0,"dead_letters_discarded":2,"dead_letters_of_unreadable_users":1,"queued_messages_of_all_users":{"user_embedding_updates":1,` + delays + `}}`)
		if n := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE user_id = 17"); n != 0 {
			t.Errorf("%d rows of the user are left", n)
		}
		if n := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE user_id = 18"); n != 3 {
			t.Errorf("%d rows of another user are left, want 3", n)
		}
		if n := s.depth(t, rabbit.DefaultNames().DeadLetters); n != 2 {
			t.Errorf("%d dead letters are left, want 2", n)
		}
		all := allProfiles(t, s.open(t))
		if !all[17].Erased() || all[18].Erased() || all[18].EventCount != 3 {
			t.Errorf("user 17 is %+v, user 18 %+v", all[17], all[18])
		}
		d := s.work(t, quick).ready()
		eventually(t, "the queued event is dropped", func() error {
			if n := d.metric(`keyfold_events_total{outcome="user_erased"}`); n != 1 {
				return fmt.Errorf("%d dropped", n)
			}
			return nil
		})
		forget(`{"user_id":17,"dry_run":false,"erased":true,"profile":"was erased before","interactions_deleted":0,"archived_letters_deleted":0,
			"archived_letters_of_unreadable_users":0,"dead_letters_discarded":0,"dead_letters_of_unreadable_users":1,"queued_messages_of_all_users":{"user_embedding_updates":0,` + delays + `}}`)
		if out := s.must(t, "user", "forget", "17", "--dry-run"); !strings.Contains(out, "was erased at 20") {
			t.Errorf("an erased user:\n%s", out)
		}
		code, out, errs := s.run(t, "user", "forget", "19", "--yes")
		if code != cli.ExitFailure || out != "" || !strings.Contains(errs, "--even-if-unknown") || allProfiles(t, s.open(t))[19] != nil {
			t.Errorf("an unknown user: exit code %d\n%s%s", code, out, errs)
		}
		out = s.must(t, "user", "forget", "19", "--yes", "--even-if-unknown")
		for _, text := range []string{"user 19 is erased", "was never there", "0 deleted", "0 discarded; 1 in which no user", "0 of all users"} {
			if !strings.Contains(out, text) {
				t.Errorf("%q is missing in:\n%s", text, out)
			}
		}
	})
}

// Where a part cannot be reached, the rest is erased, and the exit code says so.
//
// Promise(security/forget)
func TestForgetWithAServerAway(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready().accepted(event(17, profile.ProductView, 1, time.Now().Add(-time.Hour), "one"))
	s.more = []string{"--rabbitmq-dsn=amqp://guest:guest@127.0.0.1:1/"}
	code, out, errs := s.run(t, "user", "forget", "17", "--yes")
	if code != cli.ExitFailure || !strings.Contains(errs, "RABBITMQ_DSN") || !strings.Contains(out, "dead letters         not reached") ||
		!strings.Contains(out, "queued messages      not reached") || !strings.Contains(out, "1 deleted") {
		t.Errorf("without the broker: exit code %d\n%s%s", code, out, errs)
	}
	s.more = []string{"--database-url="}
	if out := s.must(t, "user", "forget", "17", "--yes"); !strings.Contains(out, "DATABASE_URL is not set") || !strings.Contains(out, "was erased at") {
		t.Errorf("without a database:\n%s", out)
	}
	s.more = []string{"--database-url=sqlite://" + t.TempDir() + "/mistyped.db"}
	if code, out, errs := s.run(t, "user", "forget", "20", "--yes", "--even-if-unknown"); code != cli.ExitFailure || !strings.Contains(errs, "no such file") ||
		!strings.Contains(out, "stored interactions  not reached") || !strings.Contains(out, "0 discarded") {
		t.Errorf("with another database: exit code %d\n%s%s", code, out, errs)
	}
	if !allProfiles(t, s.open(t))[20].Erased() {
		t.Error("the user is not erased")
	}
}
