package sqlite

import (
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/ledgertest"
)

// A merge of many records numbers them anew, each number once.
func TestMergeOfManyRecords(t *testing.T) {
	l := openNew(t)
	const of, others = 1200, 800
	for user, n := range map[string]int64{"alias": of, "into": others} {
		c := notify.Change{User: user, State: &notify.State{DecidedAt: now}}
		for i := range n {
			at := now + engine.Millis(i)
			c.Decided = append(c.Decided, ledgertest.Decide(ledgertest.Event(user, notify.Update, at), i+1, 0, notify.Never, at))
			c.State.DecidedAt = at
		}
		must(t, l.Commit(ctx, []notify.Change{c}, nil)[0])
	}
	began := time.Now()
	n, err := l.Merge(ctx, &notify.Merge{Alias: "alias", Into: "into", At: now, AliasVersion: of, IntoVersion: others, State: &notify.State{DecidedAt: now + of}})
	must(t, err)
	t.Logf("%d records and %d were merged in %v", of, others, time.Since(began).Round(time.Millisecond))
	if n != of {
		t.Errorf("%d decisions were merged, want %d", n, of)
	}
	seq := int64(0)
	for d, err := range l.Records(ctx, ledger.Filter{User: "into", Oldest: true}) {
		must(t, err)
		if seq++; d.Record.Seq != seq || d.Event.User() != "into" {
			t.Fatalf("record %d has seq %d and an event of %s", seq, d.Record.Seq, d.Event.User())
		}
	}
	if seq != of+others {
		t.Errorf("%d records, want %d", seq, of+others)
	}
}
