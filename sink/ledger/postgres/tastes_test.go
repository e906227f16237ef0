package postgres

import (
	"fmt"
	"maps"
	"math"
	"testing"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledgertest"
)

func TestTastesAreSummedUp(t *testing.T) {
	l := openNew(t)
	if all, err := l.Tastes(ctx, start); err != nil || len(all) != 1 || all[0].Decisions != 0 || all[0].Percentiles != nil {
		t.Errorf("of an empty ledger: %+v, %v", all, err)
	}
	n := 0
	decided := func(kind notify.EventType, taste notify.Score, used bool) {
		n++
		user := fmt.Sprint("user ", n)
		d := ledgertest.Decide(ledgertest.Event(user, kind, start), 1, 0, notify.Never, start)
		d.Record.Facts.Taste, d.Record.Facts.TasteUsed = taste, used
		must.OK(t, l.Commit(ctx, []notify.Change{{User: user, State: &notify.State{DecidedAt: start}, Decided: []notify.Decided{d}}}, nil)[0])
	}
	for i := range 101 {
		decided(notify.Promo, notify.Score{Known: true, Cosine: float64(i) / 100}, i < 40)
	}
	decided(notify.Security, notify.Score{Skip: notify.SkipText}, false)
	decided(notify.Promo, notify.Score{Skip: notify.SkipEmbeddingLate}, false)
	decided(notify.Promo, notify.Score{Skip: notify.SkipEmbeddingLate}, false)
	decided(notify.Promo, notify.Score{}, false)
	all, err := l.Tastes(ctx, start)
	must.OK(t, err)
	if len(all) != 3 || all[0].Type != notify.Promo || all[1].Type != notify.Security || all[2].Type != 0 {
		t.Fatalf("%+v", all)
	}
	if p := all[0]; p.Decisions != 104 || p.Known != 101 || p.Used != 40 || len(p.Percentiles) != len(TastePercentiles) {
		t.Errorf("PROMO: %+v", p)
	}
	for i, p := range TastePercentiles {
		if got := all[2].Percentiles[i]; math.Abs(got-float64(p)/100) > 1e-9 {
			t.Errorf("percentile %d is %g", p, got)
		}
	}
	if all[1].Known != 0 || all[1].Percentiles != nil || all[2].Decisions != 105 {
		t.Errorf("%+v", all[1:])
	}
	skipped, err := l.SkippedTastes(ctx, start)
	must.OK(t, err)
	if want := map[string]int64{"text_kept": 1, "embedding_late": 2}; !maps.Equal(skipped, want) {
		t.Errorf("skipped %v, want %v", skipped, want)
	}
	if later, err := l.SkippedTastes(ctx, start+1); err != nil || len(later) != 0 {
		t.Errorf("after them: %v, %v", later, err)
	}
}
