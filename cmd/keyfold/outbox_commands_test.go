package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// `outbox stats` counts what waits, was sent and was set aside; `cleanup` deletes
// what was sent long ago and nothing else.
func TestOutboxStatsAndCleanup(t *testing.T) {
	onEach(t, outbox.PostgreSQL, func(t *testing.T, s *shop) {
		api := s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready()
		api.accepted(sampleOf(t, 30)...)
		s.exec(t, "UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = '2026-01-01 00:00:00.000', created_at = '2026-01-01 00:00:00.000' WHERE id <= 10")
		s.exec(t, "UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = created_at WHERE id > 10 AND id <= 15")
		s.exec(t, "UPDATE user_interactions SET failed_at = created_at, last_error = 'no' WHERE id = 16")
		// cleanup finds rows by when they occurred, which is before they were sent.
		s.exec(t, "UPDATE user_interactions SET occurred_at = '2025-12-31 00:00:00.000' WHERE id <= 10")
		check := func(want map[string]float64) {
			t.Helper()
			got := map[string]float64{}
			must.OK(t, json.Unmarshal([]byte(s.must(t, "outbox", "stats", "-o", "json")), &got))
			if age := got["oldest_unsent_seconds"]; age <= 0 || age > 600 {
				t.Errorf("the oldest waits for %v s", age)
			}
			delete(got, "oldest_unsent_seconds")
			for name, n := range want {
				if got[name] != n {
					t.Errorf("stats are %v, want %v", got, want)
				}
			}
		}
		check(map[string]float64{"unsent": 14, "failed": 1, "sent": 15})
		if out := s.must(t, "outbox", "stats"); !strings.Contains(out, "unsent  14") || !strings.Contains(out, "failed  1") || !strings.Contains(out, "sent    15") {
			t.Errorf("stats print\n%s", out)
		}
		for _, args := range [][]string{{"--older-than=0s"}, {"--older-than=-1h"}, {"--chunk=0"}} {
			if code, _, errs := s.run(t, append([]string{"outbox", "cleanup"}, args...)...); code != cli.ExitUsage {
				t.Errorf("cleanup %v: %s", args, errs)
			}
		}
		if out := s.must(t, "outbox", "cleanup", "--dry-run"); !strings.HasPrefix(out, "10 rows would be freed, published before 20") {
			t.Errorf("cleanup --dry-run prints %q", out)
		}
		check(map[string]float64{"unsent": 14, "failed": 1, "sent": 15})
		if out := s.must(t, "outbox", "cleanup", "--yes", "--chunk=3", "-o", "json"); !strings.HasPrefix(out, `{"dry_run":false,"freed":10,"published_before":"20`) {
			t.Errorf("cleanup prints %q", out)
		}
		check(map[string]float64{"unsent": 14, "failed": 1, "sent": 15})
		if out := s.must(t, "outbox", "cleanup", "--yes"); !strings.HasPrefix(out, "0 rows freed, published before 20") {
			t.Errorf("cleanup prints %q", out)
		}
	})
}

// A row that cannot be published is set aside with its reason, its user's later
// rows go on; `keyfold failed` lists it and gives it back once it is mended.
//
// Promise(outbox/set-aside): A row that the broker refuses delays its user only; one without hope is
// set aside with the reason, and given back on demand.
func TestOutboxFailedListAndRetry(t *testing.T) {
	onEach(t, outbox.MariaDB, func(t *testing.T, s *shop) {
		if _, out, errs := s.run(t, "failed", "list"); out != "" || errs != "there is no failure that matches\n" {
			t.Errorf("list prints %q, %q", out, errs)
		}
		api := s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready()
		bodies := sampleOf(t, 12)
		api.accepted(bodies...)
		s.exec(t, "UPDATE user_interactions SET body = 'spoiled' WHERE id IN (2, 5, 7)")
		if code := api.stop(); code != 0 {
			t.Fatal(code)
		}
		// Any service that relays: SQLite's file has one.
		s.service(t, "ingest", "--relay", "--http-addr=127.0.0.1:0").ready()
		eventually(t, "three rows are set aside, the rest is sent", func() error {
			if n := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE processed_to_queue = TRUE OR failed_at IS NOT NULL"); n != 12 {
				return fmt.Errorf("%d rows are either", n)
			}
			return nil
		})
		out := s.must(t, "failed", "list", "-o", "json")
		var first struct{ Where, ID string }
		if err := json.NewDecoder(strings.NewReader(out)).Decode(&first); err != nil || first.Where != "sql" || first.ID != "row-2" || strings.Count(out, "\n") != 3 {
			t.Errorf("list prints %s: %v", out, err)
		}
		if out := s.must(t, "failed", "list", "--in=sql", "--limit=2"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "the body is no event") {
			t.Errorf("list prints %s", out)
		}
		for i, id := range []int{2, 5, 7} {
			s.exec(t, "UPDATE user_interactions SET body = ? WHERE id = ?", string(bodies[id-1]), id)
			if i == 0 {
				if out := s.must(t, "failed", "retry", "row-2", "-o", "json"); strings.TrimSpace(out) != `{"dry_run":false,"given_back":1}` {
					t.Errorf("retry prints %q", out)
				}
				code, out, errs := s.run(t, "failed", "retry", "row-999")
				if code != cli.ExitFailure || out != "" || !strings.Contains(errs, "there is no failed row-999") {
					t.Errorf("retry: exit code %d, %q, %q", code, out, errs)
				}
			}
		}
		if out := s.must(t, "failed", "retry"); !strings.HasPrefix(out, "2 rows given back") {
			t.Errorf("retry prints %q", out)
		}
		s.allSent(t)
		s.work(t, quick).ready()
		s.settled(t, s.expect(t, bodies))
		if out := s.must(t, "failed", "list", "-o", "json"); out != "" {
			t.Errorf("list prints %q", out)
		}
	})
}

// The relay's message of a row that may have been published before says since
// when; that of any other row does not.
//
// Promise(outbox/later-copy)
func TestRelayedCopiesSaySinceWhen(t *testing.T) {
	onEach(t, outbox.SQLite, func(t *testing.T, s *shop) {
		api := s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready()
		api.accepted(sampleOf(t, 10)...)
		if code := api.stop(); code != 0 {
			t.Fatal(code)
		}
		o := s.observe(t)
		s.exec(t, "UPDATE user_interactions SET tried_at = '2026-02-10 14:30:00.250' WHERE id % 3 = 0")
		var tried string
		must.OK(t, s.pool(t).QueryRow("SELECT message_id FROM user_interactions WHERE id = 3").Scan(&tried))
		s.service(t, "ingest", "--relay", "--http-addr=127.0.0.1:0").ready()
		s.allSent(t)
		bounds := 0
		for _, m := range o.all() {
			since, given := m.Headers["keyfold-first-seen"]
			if given {
				bounds++
			}
			if m.MessageId == tried && since != int64(1770733800250) {
				t.Errorf("a copy of a row that was tried has the headers %v", m.Headers)
			}
		}
		if bounds != 3 {
			t.Errorf("%d messages say since when, want 3", bounds)
		}
	})
}
