package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledgertest"
	"keyfold/sink/sqlfile"
	"keyfold/sink/sqlite"
)

func run(t *testing.T, l *Ledger, statement string) {
	t.Helper()
	must.OK(t, l.Write(ctx, func(tx *sqlfile.Tx) error {
		_, err := tx.Exec(statement)
		return err
	}))
}

func TestFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	profiles := filepath.Join(dir, "keyfold.db")
	f, err := sqlite.Open(profiles, sqlite.Settings{Dimensions: 4, History: profile.Mass})
	must.OK(t, err)
	must.OK(t, f.Close())
	_, err = Open(profiles)
	must.Fault(t, err, "store_not_keyfold", profiles)
	_, err = OpenReader(profiles)
	must.Fault(t, err, "store_not_keyfold", profiles)

	l := openAt(t, filepath.Join(dir, "notify.db"))
	_, err = sqlite.OpenReader(l.Path())
	must.Fault(t, err, "store_not_keyfold", l.Path())
	run(t, l, "PRAGMA user_version = 99")
	must.OK(t, l.Close())
	_, err = Open(l.Path())
	must.Fault(t, err, "store_newer", "schema 99", "run that version")
}

func TestReaderBesideALedger(t *testing.T) {
	l := openNew(t)
	r, err := OpenReader(l.Path())
	must.OK(t, err)
	for i := range 5 {
		must.OK(t, l.SetPreferences(ctx, string(rune('a'+i)), notify.Preferences{Caps: notify.Caps{i, 2, 3}}))
		got, err := r.Load(ctx, []notify.Ask{{User: string(rune('a' + i))}})
		must.OK(t, err)
		if got[0].Version != 1 || got[0].Preferences.Caps[0] != i {
			t.Errorf("the reader sees %+v", got[0])
		}
	}
	must.OK(t, r.Close())
}

// one returns the change of a new user by one decision.
func one(user string, outcome notify.Outcome) notify.Change {
	d := ledgertest.Decide(ledgertest.Event(user, notify.Update, now), 1, 0, outcome, now)
	return notify.Change{User: user, State: &notify.State{DecidedAt: now}, Decided: []notify.Decided{d}}
}

const now = engine.Millis(1_780_000_000_000)

// SQLite itself refuses a row of one change: nothing of that change is kept, and the
// others are.
func TestRejectedChange(t *testing.T) {
	l := openNew(t)
	run(t, l, `CREATE TRIGGER no_second BEFORE INSERT ON notify_deferrals WHEN new.user_id = 'b'
		BEGIN SELECT RAISE(ABORT, 'no second user'); END`)
	marked := one("0", notify.Now)
	must.OK(t, l.Commit(ctx, []notify.Change{marked}, nil)[0])
	mark := []uuid.UUID{marked.Decided[0].Event.ID}
	answers := l.Commit(ctx, []notify.Change{one("a", notify.Later), one("b", notify.Later), one("c", notify.Now)}, ledgertest.Dispatched(mark...))
	if answers[0] != nil || answers[2] != nil {
		t.Errorf("beside a rejected change: %v", answers)
	}
	if engine.KindOf(answers[1]) != engine.Permanent || engine.ReasonOf(answers[1]) != "document_rejected" {
		t.Errorf("a rejected change: %v, want a permanent error", answers[1])
	}
	got, err := l.Load(ctx, []notify.Ask{{User: "a"}, {User: "b"}, {User: "c"}, {User: "0", Events: mark}})
	must.OK(t, err)
	if got[0].Version != 1 || got[1].Version != 0 || got[2].Version != 1 || !got[3].Known[0].Dispatched {
		t.Errorf("stored are %+v", got)
	}
	counts, err := l.Counts(ctx, ledger.Span{})
	must.OK(t, err)
	if len(counts) != 2 {
		t.Errorf("records are %+v", counts)
	}
}

// Decisions name what is outside of the schema's bounds.
func TestBounds(t *testing.T) {
	l := openNew(t)
	turn, deferred, long := one("turn", notify.Now), one("later", notify.Later), one("x", notify.Now)
	turn.Decided[0].Record.Turn = notify.MaxTurn + 1
	deferred.Decided[0].Record.DeferUntil = 0
	long.User = strings.Repeat("x", notify.MaxUserRunes+1)
	for i, err := range l.Commit(ctx, []notify.Change{turn, deferred, long}, nil) {
		if engine.KindOf(err) != engine.Permanent {
			t.Errorf("change %d: %v, want a permanent error", i, err)
		}
	}
}

func TestDamagedRows(t *testing.T) {
	for name, test := range map[string]struct {
		damage string
		read   func(*Ledger) error
		words  []string
	}{
		"state": {"UPDATE notify_users SET state = x'01'", func(l *Ledger) error {
			_, err := l.Load(ctx, []notify.Ask{{User: "a"}})
			return err
		}, []string{`user "a"`, "backup"}},
		"preferences": {"UPDATE notify_preferences SET preferences = '{'", func(l *Ledger) error {
			_, err := l.Load(ctx, []notify.Ask{{User: "p"}})
			return err
		}, []string{"Preferences"}},
		"deferral": {"UPDATE notify_deferrals SET event = '{}'", func(l *Ledger) error {
			_, err := l.Claim(ctx, now*2, now*3, 9)
			return err
		}, []string{"event"}},
		"spent": {"UPDATE notify_deferrals SET spent = x'00'", func(l *Ledger) error {
			_, err := l.Claim(ctx, now*2, now*3, 9)
			return err
		}, []string{"ids"}},
		"facts": {"UPDATE notify_decisions SET facts = '[]'", readAll, []string{"Facts"}},
		"print": {"UPDATE notify_decisions SET print = x'00'", readAll, []string{"fingerprint"}},
		"event": {"UPDATE notify_decisions SET event = '{}'", readAll, []string{"event"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := openNew(t)
			must.OK(t, l.Commit(ctx, []notify.Change{one("a", notify.Later)}, nil)[0])
			must.OK(t, l.SetPreferences(ctx, "p", notify.Preferences{}))
			run(t, l, test.damage)
			must.Fault(t, test.read(l), sqlfile.ReasonCorrupt, test.words...)
		})
	}
}

// A deferral that is damaged keeps no other one.
//
// Promise(ledger/damaged-deferral)
func TestADamagedDeferralAmongOthers(t *testing.T) {
	l := openNew(t)
	for _, user := range []string{"a", "b", "c"} {
		must.OK(t, l.Commit(ctx, []notify.Change{one(user, notify.Later)}, nil)[0])
	}
	run(t, l, "UPDATE notify_deferrals SET event = '{}' WHERE user_id = 'b'")
	due, err := l.Claim(ctx, now*2, now*3, 9)
	must.Fault(t, err, sqlfile.ReasonCorrupt, "event")
	if len(due) != 2 || due[0].Event.UserID+due[1].Event.UserID != "ac" {
		t.Errorf("%+v are claimed, want those of a and c", due)
	}
}

func readAll(l *Ledger) error {
	for _, err := range l.Records(ctx, ledger.Filter{}) {
		if err != nil {
			return err
		}
	}
	return nil
}
