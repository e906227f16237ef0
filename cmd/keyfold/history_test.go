package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// Everything is cleaned up, and the same events are posted again: none is folded twice,
// and the profiles that a rebuild makes of what is left are the live ones.
//
// Promise(outbox/repeated-request)
func TestTheHistoryOutlivesACleanup(t *testing.T) {
	events := 60
	if long {
		events = 10_000
	}
	onEach(t, outbox.MariaDB, func(t *testing.T, s *shop) {
		api := s.ingest(t)
		bodies := sampleOf(t, events)
		api.accepted(bodies...)
		s.exec(t, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) VALUES (1, 'product_view', 1, ?)", time.Now().UTC().Add(-time.Minute).Format("2006-01-02 15:04:05.000"))
		s.allSent(t)
		s.work(t, quick).ready()
		o := s.expect(t, s.bodies(t))
		s.settled(t, o)
		eventually(t, "every body is freed", func() error {
			s.must(t, "outbox", "cleanup", "--older-than=1ms", "--yes")
			if n := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE body IS NOT NULL"); n > 0 {
				return fmt.Errorf("%d are not", n)
			}
			return nil
		})
		rows := s.count(t, "SELECT COUNT(*) FROM user_interactions")
		api.accepted(bodies...)
		if n := s.count(t, "SELECT COUNT(*) FROM user_interactions"); n != rows {
			t.Errorf("%d rows after the same events were posted again, want %d", n, rows)
		}
		s.exec(t, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) SELECT user_id, event_type, product_id, occurred_at FROM user_interactions WHERE user_id = 1 AND product_id = 1")
		eventually(t, "the repeated row is marked", func() error {
			if n := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE processed_to_queue = FALSE"); n > 0 {
				return fmt.Errorf("%d rows wait", n)
			}
			return nil
		})
		if r := s.rebuild(t, "--all"); r.Same != len(o.Users) || r.Replaced+r.Refused != 0 {
			t.Errorf("rebuilt: %+v, want %d unchanged", r, len(o.Users))
		}
		s.settled(t, o)
	})
}

// A prune says what it makes impossible, and from then on both doors refuse what
// occurred before it.
//
// Promise(outbox/pruned)
func TestHistoryPrune(t *testing.T) {
	onEach(t, outbox.PostgreSQL, func(t *testing.T, s *shop) {
		api := s.ingest(t)
		api.accepted(event(1, profile.ProductView, 1, time.Now().Add(-48*time.Hour), "old"), event(1, profile.ProductView, 2, time.Now(), "young"))
		s.allSent(t)
		code, out, errs := s.run(t, "history", "prune", "--older-than=24h", "--dry-run")
		if code != 0 || !strings.HasPrefix(out, "1 row would be deleted, occurred before 20") || !strings.Contains(errs, "are refused from then on, and keyfold user rebuild cannot") {
			t.Errorf("a dry run prints %d, %q, %q", code, out, errs)
		}
		if out := s.must(t, "history", "prune", "--older-than=24h", "--yes"); !strings.HasPrefix(out, "1 row deleted, occurred before 20") {
			t.Errorf("prune prints %q", out)
		}
		var stats map[string]any
		must.OK(t, json.Unmarshal([]byte(s.must(t, "history", "stats", "-o", "json")), &stats))
		if stats["rows"] != 1.0 || stats["ids"] != 1.0 || stats["floor"] == nil {
			t.Errorf("stats are %v", stats)
		}
		if out := s.must(t, "history", "stats"); !strings.Contains(out, "floor   20") {
			t.Errorf("stats print %q", out)
		}
		if a := api.post(event(1, profile.ProductView, 1, time.Now().Add(-48*time.Hour), "old")); a.Code != http.StatusBadRequest || !strings.Contains(a.Text, `"reason":"before_history"`) {
			t.Errorf("an event from before the prune is answered %d %s", a.Code, a.Text)
		}
		if code, _, errs := s.run(t, "history", "prune", "--older-than=0s", "--yes"); code != cli.ExitUsage || !strings.Contains(errs, "--older-than") {
			t.Errorf("--older-than=0s: %d, %q", code, errs)
		}
	})
}
