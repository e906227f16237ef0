package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"keyfold/service/profile/explanation"
	"keyfold/source/outbox"
)

func (s *shop) explain(t *testing.T, args ...string) (v explanation.View) {
	t.Helper()
	out := s.must(t, append([]string{"user", "explain", "-o", "json", "--events", "100000"}, args...)...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	sum := v.Remainder
	for _, p := range v.Events {
		sum += p.Share
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("explain %v: the shares and the remainder add up to %v", args, sum)
	}
	return v
}

// What workers folded is explained from the history; what a prune deleted is the remainder;
// without a history all of it is.
func TestExplainFromTheHistory(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	s.ingest(t).accepted(sorted(t, sampleOf(t, 200))...)
	s.allSent(t)
	s.work(t, quick).ready()
	o := s.expect(t, sorted(t, s.bodies(t)))
	s.folded(t, int64(o.Folded))
	whole := s.explain(t, "1")
	if !whole.Equal || whole.Folded < 3 || math.Abs(whole.Remainder) > 1e-9 || len(whole.Nearest) == 0 || len(whole.Nearest[0].Because) == 0 {
		t.Errorf("the whole history: %+v", whole)
	}
	s.exec(t, "DELETE FROM user_interactions WHERE user_id = 1 AND message_id IN (SELECT message_id FROM user_interactions WHERE user_id = 1 ORDER BY occurred_at LIMIT 2)")
	part := s.explain(t, "1")
	if part.Equal || part.Folded != whole.Folded-2 || part.Remainder < 1e-6 || len(part.Rest) == 0 {
		t.Errorf("without two events: %+v", part)
	}
	s.exec(t, "DELETE FROM user_interactions WHERE user_id = 1")
	if none := s.explain(t, "1"); none.Folded != 0 || math.Abs(none.Remainder-1) > 1e-9 {
		t.Errorf("without a history: %+v", none)
	}
	if out := s.must(t, "user", "explain", "1"); !strings.Contains(out, "all of it is remainder") {
		t.Errorf("printed: %s", out)
	}
	s.url = "sqlite:///nowhere/at/all.db"
	if away := s.explain(t, "1"); !strings.Contains(away.Note, "no history: ") || math.Abs(away.Remainder-1) > 1e-9 {
		t.Errorf("the database is away: %+v", away)
	}
}
