package sqlite

import (
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
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
		must.OK(t, l.Commit(ctx, []notify.Change{c}, nil)[0])
	}
	began := time.Now()
	n, err := l.Merge(ctx, &notify.Merge{Alias: "alias", Into: "into", At: now, AliasVersion: of, IntoVersion: others, State: &notify.State{DecidedAt: now + of}})
	must.OK(t, err)
	t.Logf("%d records and %d were merged in %v", of, others, time.Since(began).Round(time.Millisecond))
	if n != of {
		t.Errorf("%d decisions were merged, want %d", n, of)
	}
	seq := int64(0)
	for d, err := range l.Records(ctx, ledger.Filter{User: "into", Oldest: true}) {
		must.OK(t, err)
		if seq++; d.Record.Seq != seq || d.Event.User() != "into" {
			t.Fatalf("record %d has seq %d and an event of %s", seq, d.Record.Seq, d.Event.User())
		}
	}
	if seq != of+others {
		t.Errorf("%d records, want %d", seq, of+others)
	}
}

// A version of an alias's preferences names none of the person's.
func TestAMergeLeavesNoVersionOfTheAlias(t *testing.T) {
	l := openNew(t)
	for range 2 {
		must.OK(t, l.SetPreferences(ctx, "alias", notify.Preferences{Paused: true}))
	}
	must.OK(t, l.SetPreferences(ctx, "into", notify.Preferences{}))
	_, err := ledger.MergeUsers(ctx, l, "alias", "into", now)
	must.OK(t, err)
	if p, err := l.Preferences(ctx, "into"); err != nil || p.Version <= 2 {
		t.Errorf("version %d, %v", p.Version, err)
	}
}
