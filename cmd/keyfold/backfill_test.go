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
)

// takeOver takes over the shop's own table.
func (s *shop) takeOver(t *testing.T) {
	t.Helper()
	s.must(t, "setup", "--adopt=user_interactions", "--adopt-backfill")
}

// fill fills the shop's own table, as the data model has it, with searches and
// views of 20 users, one a minute, of which the shop has published the first
// ones, and takes it over.
func (s *shop) fill(t *testing.T, events, sent int) {
	t.Helper()
	s.exec(t, "DROP TABLE user_interactions")
	s.exec(t, "DROP TABLE keyfold_schema_version")
	s.exec(t, `CREATE TABLE user_interactions (
		id INT AUTO_INCREMENT PRIMARY KEY,
		user_id INT NOT NULL,
		event_type ENUM('search', 'product_view', 'product_click', 'product_purchase') NOT NULL,
		search_phrase VARCHAR(255) NULL, product_id INT NULL, occurred_at DATETIME NOT NULL, metadata JSON NULL,
		created_at DATETIME NOT NULL, processed_to_queue BOOLEAN DEFAULT FALSE) CHARSET=utf8mb4`)
	begin := time.Now().UTC().Add(-time.Duration(events+10) * time.Minute)
	values := make([]string, events)
	for i := range values {
		at := begin.Add(time.Duration(i) * time.Minute).Format(time.DateTime)
		what := fmt.Sprintf("'product_view', NULL, %d, '%s', '{\"device\":\"mobile\"}'", i%50+1, at)
		if i%3 == 0 {
			what = fmt.Sprintf("'search', 'l''été \"%d\"', NULL, '%s', '[]'", i%7, at)
		}
		values[i] = fmt.Sprintf("(%d, %s, '%s')", i%20+1, what, at)
	}
	s.exec(t, "INSERT INTO user_interactions (user_id, event_type, search_phrase, product_id, occurred_at, metadata, created_at) VALUES "+strings.Join(values, ", "))
	s.exec(t, "UPDATE user_interactions SET processed_to_queue = TRUE WHERE id IN (SELECT id FROM (SELECT id FROM user_interactions WHERE id <= ?) AS sent)", sent)
	for range 2 { // the second time nothing is new
		s.takeOver(t)
	}
	if n := s.count(t, "SELECT COUNT(*) FROM user_interactions"); n != events {
		t.Fatalf("%d rows were taken over, want %d", n, events)
	}
}

// Rows of another program reach the profiles once, by a backfill that was killed
// and goes on, while a worker folds.
//
// Promise(outbox/backfill-killed): A killed backfill goes on with the same command; its events are
// folded once.
func TestBackfillIsResumedAfterAKill(t *testing.T) {
	s := newShop(t, outbox.MariaDB)
	const rows = 600
	s.fill(t, rows, 0)
	o := s.observe(t)
	if out := s.must(t, "backfill", "--dry-run"); !strings.HasPrefix(out, "600 rows would be published") {
		t.Errorf("backfill prints %q", out)
	}
	if n := len(o.all()); n != 0 {
		t.Fatalf("a dry run published %d messages", n)
	}
	worker := s.work(t, quick).ready()
	marked := func() int { return s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE processed_to_queue = 1") }
	for _, until := range []int{1, 200} {
		_, kill := s.spawn(t, "backfill", "--rate=150/s")
		eventually(t, "rows are marked", func() error {
			if n := marked(); n < until {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
		kill()
	}
	if n := marked(); n == rows {
		t.Error("all was sent before the kill: the test proves nothing")
	}
	out := s.must(t, "backfill", "--rate=5000/s", "-o", "json")
	var report struct{ Sent, Left int }
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Left != 0 || report.Sent == 0 || report.Sent >= rows {
		t.Errorf("backfill prints %s: %v", out, err)
	}
	s.allSent(t)
	published := s.checkOrder(t, o)
	s.settled(t, s.expect(t, s.bodies(t)))
	if n := worker.metric("keyfold_dead_letters_total"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	t.Logf("%d rows, %d messages", rows, published)
	if out := s.must(t, "backfill"); !strings.HasPrefix(out, "0 rows published: no row of the outbox is unsent") {
		t.Errorf("backfill prints %q", out)
	}
}

// Filters pick rows by user, time and type, and the messages carry when they were
// first stored.
func TestBackfillFilters(t *testing.T) {
	s := newShop(t, outbox.MariaDB)
	s.fill(t, 120, 0)
	o := s.observe(t)
	var middle string
	must.OK(t, s.pool(t).QueryRow("SELECT DATE_FORMAT(occurred_at, '%Y-%m-%dT%H:%i:%sZ') FROM user_interactions WHERE id = 61").Scan(&middle))
	for _, c := range []struct {
		args []string
		want func(e profile.Event) bool
		n    int
	}{
		{[]string{"--user=3"}, func(e profile.Event) bool { return e.UserID == 3 }, 6},
		{[]string{"--type=search", "--until=" + middle}, func(e profile.Event) bool { return e.Type == profile.Search && e.UserID != 3 }, 19},
		{[]string{"--from=" + middle, "--type=product_view"}, func(e profile.Event) bool { return e.Type == profile.ProductView && e.UserID != 3 }, 38},
		{nil, func(profile.Event) bool { return true }, 120 - 6 - 19 - 38},
	} {
		if out := s.must(t, append([]string{"backfill", "--rate=5000/s", "-o", "json"}, c.args...)...); !strings.Contains(out, fmt.Sprintf(`"sent":%d`, c.n)) {
			t.Errorf("backfill %v: %s, want %d", c.args, out, c.n)
		}
		for _, m := range o.all() {
			e, err := profile.ParseEvent(m.Body, time.Now())
			if err != nil || !c.want(e) {
				t.Errorf("backfill %v published %s: %v", c.args, m.Body, err)
			}
			if seen, _ := m.Headers["keyfold-first-seen"].(int64); seen < time.Now().Add(-4*time.Hour).UnixMilli() || seen > time.Now().UnixMilli() {
				t.Errorf("first seen at %v", m.Headers)
			}
		}
	}
	if code, _, errs := s.run(t, "backfill", "--type=sale"); code != cli.ExitUsage || !strings.Contains(errs, "product_purchase") {
		t.Errorf("an unknown type: %d %s", code, errs)
	}
}

// Rows that are taken over wait for a backfill, beside a relay that publishes
// today's events; those that the shop had published are cleaned up like any other.
//
// Promise(outbox/adopt-running): A table is taken over in chunks while a relay runs; its rows wait for
// `keyfold backfill`, and published ones are cleaned up.
func TestImportedRowsAreLeftToABackfill(t *testing.T) {
	s := newShop(t, outbox.MariaDB)
	o := s.observe(t)
	s.fill(t, 1200, 700)
	api := s.service(t, "ingest", "--relay", "--http-addr=127.0.0.1:0").ready()
	api.accepted(sampleOf(t, 30)...)
	eventually(t, "today's events are published", func() error {
		if n := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE processed_to_queue = 1 AND tried_at IS NOT NULL"); n != 30 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	for _, m := range o.all() {
		if m.Headers["keyfold-first-seen"] != nil {
			t.Errorf("a new event has the headers %v", m.Headers)
		}
	}
	if out := s.must(t, "outbox", "stats", "-o", "json"); !strings.Contains(out, `"backfill":500`) || !strings.Contains(out, `"unsent":0`) {
		t.Errorf("stats print %s", out)
	}
	s.takeOver(t)
	if n := s.count(t, "SELECT COUNT(*) FROM user_interactions"); n != 1230 {
		t.Errorf("%d rows after the take-over was run again, want 1230", n)
	}
	if out := s.must(t, "backfill", "--rate=5000/s"); !strings.HasPrefix(out, "500 rows published") {
		t.Errorf("backfill prints %s", out)
	}
	for _, m := range o.all() {
		if m.Headers["keyfold-first-seen"] == nil {
			t.Errorf("a row of the shop's is published without its bound: %v", m.Headers)
		}
	}
}

// Two backfills at once share the rows, and neither counts those of the other as left.
//
// Promise(outbox/two-backfills): Two backfills at once share the rows, and each says what is left in
// fact.
func TestTwoBackfillsAtOnce(t *testing.T) {
	s := newShop(t, outbox.MariaDB)
	const rows = 600
	s.fill(t, rows, 0)
	outs := make(chan string, 2)
	for range cap(outs) {
		go func() {
			_, out, errs := s.run(t, "backfill", "--rate=200/s", "-o", "json")
			outs <- out + errs
		}()
	}
	total := 0
	for range cap(outs) {
		var report struct{ Sent, Left int }
		if out := <-outs; json.Unmarshal([]byte(out), &report) != nil || report.Left != 0 {
			t.Errorf("a backfill prints %s, want that 0 are left", out)
		}
		total += report.Sent
	}
	if total != rows {
		t.Errorf("both have sent %d rows, want %d", total, rows)
	}
}
