package sqlite

import (
	"bytes"
	"os"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledgertest"
	"keyfold/sink/sqlfile"
)

// After an erasure and a rewriting, the file holds no byte of the ids and texts of the user and an alias.
//
// Promise(ledger/erasure)
func TestErasureLeavesNoCopy(t *testing.T) {
	const user, at = "Kassandra-71", engine.Millis(1_780_000_000_000)
	l := openNew(t)
	must.OK(t, l.SetPreferences(ctx, user, notify.Preferences{Muted: []notify.EventType{notify.Promo}}))
	c := notify.Change{User: user, Version: 1, State: &notify.State{DecidedAt: at}}
	for i, outcome := range []notify.Outcome{notify.Now, notify.Later, notify.Never} {
		c.Decided = append(c.Decided, ledgertest.Decide(ledgertest.Event(user, notify.Update, at), int64(2+i), 0, outcome, at))
	}
	must.OK(t, l.Commit(ctx, []notify.Change{c}, nil)[0])
	const alias = "Ulysses-12"
	must.OK(t, l.Commit(ctx, []notify.Change{one(alias, notify.Later)}, nil)[0])
	_, err := ledger.MergeUsers(ctx, l, alias, user, at)
	must.OK(t, err)
	texts := []string{user, alias, "shipped", "Grüße"}
	holds := func() (n int) {
		stored, err := os.ReadFile(l.Path())
		must.OK(t, err)
		for _, text := range texts {
			n += bytes.Count(stored, []byte(text))
		}
		return n
	}
	must.OK(t, l.Forget(ctx, alias, at))
	must.OK(t, l.Close())
	must.OK(t, sqlfile.Rewrite(ctx, l.Path()))
	if n := holds(); n > 0 {
		t.Errorf("id and texts stand %d times in the file", n)
	}
	for _, id := range []string{user, alias} {
		if stored, err := os.ReadFile(l.Path()); err != nil || !bytes.Contains(stored, []byte(notify.Tombstone(id))) {
			t.Errorf("the tombstone of %s is not in the file: %v", id, err)
		}
	}
}
