package sqlite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledgertest"
	"keyfold/sink/sqlfile/crashtest"
)

const crashUsers = 32

// commitUntilKilled is the child's part of TestKill: it commits changes of many
// users, claims what is due, decides it again and marks dispatches, and prints each
// user's version once it was acknowledged.
func commitUntilKilled(path string) error {
	l, err := Open(path)
	for ; err == nil; err = commitOnce(l) {
	}
	return err
}

func commitOnce(l *Ledger) error {
	asks := make([]notify.Ask, 1+rand.IntN(crashUsers))
	for i, user := range rand.Perm(crashUsers)[:len(asks)] {
		asks[i] = notify.Ask{User: fmt.Sprint(user), Deferrals: true}
	}
	standings, err := l.Load(ctx, asks)
	if err != nil {
		return err
	}
	var changes []notify.Change
	for i := range standings {
		changes = append(changes, crashChange(asks[i].User, &standings[i]))
	}
	waiting, err := l.Undispatched(ctx, now*2, 5)
	if err != nil {
		return err
	}
	var marked []uuid.UUID
	for _, d := range waiting {
		marked = append(marked, d.ID)
	}
	for i, err := range l.Commit(ctx, changes, ledgertest.Dispatched(marked...)) {
		if err != nil {
			return err
		}
		fmt.Println(changes[i].User, changes[i].Version+int64(len(changes[i].Decided)))
	}
	_, err = l.Claim(ctx, now*2, now*2, 3)
	return err
}

// crashChange decides some new events and what waits. Its state tells its version.
func crashChange(user string, s *notify.Standing) notify.Change {
	c := notify.Change{User: user, Version: s.Version}
	add := func(e *notify.Notification, turn int, outcome notify.Outcome) {
		seq := c.Version + int64(len(c.Decided)) + 1
		c.Decided = append(c.Decided, ledgertest.Decide(e, seq, turn, outcome, now+engine.Millis(seq)))
	}
	for range 1 + rand.IntN(3) {
		add(ledgertest.Event(user, notify.Update, now), 0, notify.Outcome(1+rand.IntN(3)))
	}
	for _, due := range s.Deferred[:min(3, len(s.Deferred))] {
		if due.Turn.Number < notify.MaxTurn {
			add(due.Event, due.Turn.Number, notify.Later)
		} else {
			add(due.Event, due.Turn.Number, notify.Outcome(1+2*rand.IntN(2)))
		}
	}
	c.State = &notify.State{DecidedAt: now + engine.Millis(c.Version) + engine.Millis(len(c.Decided))}
	return c
}

// TestKill kills a committing process at random moments. Each acknowledged commit
// must be there, each change whole or not at all, and the file sound.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kill.db")
	acknowledged := map[string]int64{}
	for range 6 {
		crashtest.Kill(t, path, acknowledged)
		verify(t, path, acknowledged)
	}
	if len(acknowledged) < crashUsers/2 {
		t.Fatalf("only %d users were written in all: the test tested little", len(acknowledged))
	}
}

// verify opens the file as the next start would.
func verify(t *testing.T, path string, acknowledged map[string]int64) {
	t.Helper()
	l, err := Open(path)
	must.OK(t, err)
	defer func() { must.OK(t, l.Close()) }()
	var sound string
	if err := l.One("PRAGMA integrity_check", &sound); err != nil || sound != "ok" {
		t.Fatalf("integrity_check: %s, %v", sound, err)
	}
	for i := range crashUsers {
		user := fmt.Sprint(i)
		verifyUser(t, l, user, acknowledged[user])
	}
}

// verifyUser compares the user's version with the state, the records, the keys and
// the deferrals that one change writes together.
func verifyUser(t *testing.T, l *Ledger, user string, acknowledged int64) {
	t.Helper()
	ask := notify.Ask{User: user, Deferrals: true}
	newest := map[uuid.UUID]notify.Record{}
	seq := int64(0)
	for d, err := range l.Records(ctx, ledger.Filter{User: user, Oldest: true}) {
		must.OK(t, err)
		if seq++; d.Record.Seq != seq {
			t.Fatalf("user %s: record %d follows %d", user, d.Record.Seq, seq-1)
		}
		if _, met := newest[d.Record.EventID]; !met {
			ask.Events = append(ask.Events, d.Record.EventID)
		}
		newest[d.Record.EventID] = d.Record
	}
	all, err := l.Load(ctx, []notify.Ask{ask})
	must.OK(t, err)
	got := all[0]
	if got.Version < acknowledged || got.Version != seq {
		t.Fatalf("user %s: version %d with %d records, but %d was acknowledged", user, got.Version, seq, acknowledged)
	}
	if seq > 0 && got.State.DecidedAt != now+engine.Millis(seq) {
		t.Errorf("user %s: version %d has the state of version %d", user, seq, got.State.DecidedAt-now)
	}
	waiting := 0
	for i, event := range ask.Events {
		r := newest[event]
		if k := got.Known[i]; k.Turn != r.Turn || k.DecisionID != r.DecisionID {
			t.Errorf("user %s: the key of event %s is %+v, its newest record %+v", user, event, k, r)
		}
		if r.Outcome == notify.Later {
			waiting++
		}
	}
	if waiting != len(got.Deferred) {
		t.Errorf("user %s: %d events are deferred, %d wait", user, waiting, len(got.Deferred))
	}
}
