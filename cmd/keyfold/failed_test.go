package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/source/outbox"
)

// Rows that were set aside and dead letters are one list, under the same filters; each
// can be shown, retried and removed by its id.
//
// Promise(outbox/failed-rows)
func TestOneViewOfFailures(t *testing.T) {
	onEach(t, outbox.MariaDB, func(t *testing.T, s *shop) {
		api := s.ingest(t)
		s.exec(t, "INSERT INTO user_interactions (user_id, event_type, occurred_at) VALUES (7, 'product_view', '2026-02-10 14:30:00'), (8, 'product_view', '2026-02-10 14:30:00')")
		eventually(t, "both rows are set aside", func() error {
			if n := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE failed_at IS NOT NULL"); n != 2 {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
		s.bury(t, given([][]byte{
			event(7, profile.ProductView, 1, time.Now().Add(-time.Hour), "letter-of-7"), event(9, profile.ProductView, 1, time.Now().Add(-time.Hour), "letter-of-9"),
		})...)
		ids := func(args ...string) string {
			t.Helper()
			var all []string
			for line := range strings.Lines(s.must(t, append([]string{"failed", "list", "-o", "json"}, args...)...)) {
				all = append(all, strings.Join(strings.Split(line, `"`)[3:8:8], ""))
			}
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		for _, c := range []struct{ args, want string }{
			{"", "broker,id:letter-of-7 broker,id:letter-of-9 sql,id:row-1 sql,id:row-2"},
			{"--user=7", "broker,id:letter-of-7 sql,id:row-1"},
			{"--in=broker", "broker,id:letter-of-7 broker,id:letter-of-9"},
			{"--error=timeout", "broker,id:letter-of-7 broker,id:letter-of-9"},
			{"--error=product_event_without_product --user=8", "sql,id:row-2"},
			{"--failed-before=2026-01-01T00:00:00Z", ""},
		} {
			if got := ids(strings.Fields(c.args)...); got != c.want {
				t.Errorf("list %s: %s, want %s", c.args, got, c.want)
			}
		}
		if out := s.must(t, "failed", "list"); !strings.HasPrefix(out, "WHERE") || !strings.Contains(out, "sql     row-1") || !strings.Contains(out, "broker  letter-of-7") {
			t.Errorf("list prints %s", out)
		}
		if out := s.must(t, "failed", "stats"); !strings.Contains(out, "rows that were set aside in SQL\n2 dead letters") || !strings.Contains(out, "product_event_without_product") {
			t.Errorf("stats print %s", out)
		}
		if out := s.must(t, "failed", "show", "row-1"); !strings.Contains(out, "product_id") {
			t.Errorf("show prints %s", out)
		}
		if out := s.must(t, "failed", "show", "letter-of-9"); !strings.Contains(out, "timeout again") {
			t.Errorf("show prints %s", out)
		}
		s.exec(t, "UPDATE user_interactions SET product_id = 1 WHERE user_id = 7")
		if out := s.must(t, "failed", "retry", "--user=7", "--dry-run"); !strings.Contains(out, "1 row would be given back") || !strings.Contains(out, "would replay 1") {
			t.Errorf("a dry run prints %s", out)
		}
		if out := s.must(t, "failed", "retry", "--user=7"); !strings.Contains(out, "1 row given back") || !strings.Contains(out, "replayed 1, skipped 0") {
			t.Errorf("retry prints %s", out)
		}
		if out := s.must(t, "failed", "remove", "--yes"); out != "1 row deleted\n1 dead letter discarded\n" {
			t.Errorf("remove prints %q", out)
		}
		if got := ids(); got != "" {
			t.Errorf("left: %s", got)
		}
		eventually(t, "the row that was mended is sent", func() error {
			if n := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE processed_to_queue = TRUE"); n != 1 {
				return fmt.Errorf("%d rows are", n)
			}
			return nil
		})
		if code := api.stop(); code != 0 {
			t.Error(code)
		}
	})
}

// A place that cannot be reached does not hide the other.
func TestFailuresWhereTheBrokerIsAway(t *testing.T) {
	s := newShop(t, "sqlite")
	s.exec(t, "INSERT INTO user_interactions (user_id, event_type, occurred_at, failed_at, last_error) VALUES (7, 'product_view', '2026-02-10 14:30:00', '2026-02-10 14:31:00.000', 'no product')")
	s.more = []string{"--rabbitmq-dsn=amqp://guest:guest@127.0.0.1:1/"}
	code, out, errs := s.run(t, "failed", "list")
	if code == 0 || !strings.Contains(out, "row-1") || !strings.Contains(errs, "RABBITMQ_DSN") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
}

// A letter that was archived and is in the broker still, as after a kill between the
// commit and the removal, is archived once. Erasure reaches the archive.
//
// Promise(security/forget)
func TestFailedArchive(t *testing.T) {
	onEach(t, outbox.PostgreSQL, func(t *testing.T, s *shop) {
		letters := given([][]byte{
			event(7, profile.ProductView, 1, time.Now().Add(-time.Hour), "a"), event(7, profile.ProductView, 2, time.Now().Add(-time.Hour), "b"),
			event(9, profile.ProductView, 1, time.Now().Add(-time.Hour), "c"),
		})
		s.bury(t, letters...)
		rows := func() int { return s.count(t, "SELECT COUNT(*) FROM keyfold_failed") }
		if out := s.must(t, "failed", "archive"); !strings.HasPrefix(out, "3 dead letters archived") || rows() != 3 || s.depth(t, failed) != 0 {
			t.Errorf("archive prints %q; %d letters are in SQL and %d in the broker", out, rows(), s.depth(t, failed))
		}
		s.bury(t, letters...)
		if out := s.must(t, "failed", "archive", "--dry-run"); !strings.HasPrefix(out, "3 dead letters would be archived") {
			t.Errorf("a dry run prints %q", out)
		}
		if out := s.must(t, "failed", "archive"); !strings.HasPrefix(out, "0 dead letters archived\n  3 were archived before") {
			t.Errorf("archive prints %q", out)
		}
		if n := s.depth(t, failed); n != 0 || rows() != 3 {
			t.Errorf("%d letters are left in the broker and %d in SQL, want 0 and 3", n, rows())
		}
		s.bury(t, buried{body: []byte(`{"user_id":"7"}`), id: "d", reason: "wrong_type"}, buried{body: []byte(`{"user_id":7.0}`), id: "e", reason: "wrong_type"},
			buried{body: []byte("no event"), id: "f", reason: "malformed_json"})
		if out := s.must(t, "failed", "archive"); !strings.HasPrefix(out, "3 dead letters archived") || s.count(t, "SELECT COUNT(*) FROM keyfold_failed WHERE user_id = 7") != 4 {
			t.Errorf("letters whose user a worker refuses: %s", out)
		}
		s.exec(t, "UPDATE keyfold_failed SET user_id = NULL WHERE body LIKE '%\"user_id\":%7%'") // as former versions stored them
		for _, c := range []struct{ flag, want string }{
			{"--dry-run", "archived letters     4 would be deleted; 1 in which no user can be read stay\n"},
			{"--yes", "archived letters     4 deleted; 1 in which no user can be read stay\n"},
		} {
			if out := s.must(t, "user", "forget", "7", c.flag); !strings.Contains(out, c.want) {
				t.Errorf("%s: no %q in\n%s", c.flag, c.want, out)
			}
		}
		if rows() != 2 {
			t.Errorf("%d letters are left after an erasure, want 2", rows())
		}
	})
}
