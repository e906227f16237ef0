package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile/eval"
	"keyfold/service/profile/evaluation"
	"keyfold/source/outbox"
	"keyfold/source/vector"
)

// The history of the outbox answers what fresh profiles find, by the stored products'
// vectors.
func TestEvalAsksTheHistory(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	s.importProducts(t)
	bodies := sampleOf(t, 1000)
	s.stored(t, strings.TrimPrefix(s.url, "sqlite://"), time.Hour, bodies)
	rows := s.count(t, "SELECT COUNT(DISTINCT message_id) FROM user_interactions")
	ask := func(args ...string) (r evaluation.Report) {
		t.Helper()
		out := s.must(t, append([]string{"eval", "-o", "json", "--no-tables", "--half-lives", "last,1m,never"}, args...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		return r
	}
	all := ask()
	if all.Log.Events != rows || all.Vectors != vector.HashModel || all.Log.Products != len(s.products) || all.Checked == 0 {
		t.Errorf("%d rows and %d products; the report has %+v of %s, %d checked", rows, len(s.products), all.Log, all.Vectors, all.Checked)
	}
	if own, chance := all.Row(all.Current), all.Row(eval.Random); own == nil || own.Test.HR <= chance.Test.HR {
		t.Errorf("the profile finds %+v, chance %+v", own, chance)
	}
	since := all.Log.First.Add(all.Log.Last.Sub(all.Log.First) / 4)
	if part := ask("--since", since.Format(time.RFC3339)); part.Log.Events >= all.Log.Events || part.Log.First.Before(since.Truncate(time.Second)) {
		t.Errorf("since %v: %+v", since, part.Log)
	}
	if silent := ask("--no-searches", "--vectors", "stored"); silent.Log.Events != rows || silent.Row(silent.Current).Test == all.Row(all.Current).Test {
		t.Errorf("without searches the same is found: %+v", silent.Row(silent.Current))
	}
	if learned := ask("--vectors", "cooc"); !strings.Contains(learned.Vectors, "learned from the sessions") {
		t.Errorf("learned vectors: %s", learned.Vectors)
	}
	if code, _, errs := s.run(t, "eval", "--since", "1m"); code != 1 || !strings.Contains(errs, "the log has no event") {
		t.Errorf("an empty history: code %d, %s", code, errs)
	}
}
