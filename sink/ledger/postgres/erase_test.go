package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/sink/ledger"
)

// fillUser makes a user of whom there is something in every table and state: records of
// several transactions, two waiting deferrals, one of them of a digest, a NOW that was not
// dispatched, one that failed with the sender's words, preferences, and keys of a day
// whose records are dropped. It returns the first deferral.
func fillUser(t *testing.T, l *Ledger, user string, records int) (waiting notify.Decided) {
	t.Helper()
	// A day of which the keys alone are left.
	_, err := l.EnsurePartitions(ctx, start-day, 1)
	must.OK(t, err)
	must.OK(t, commitOne(l, oneAt(user, 0, notify.Now, start-day)))
	_, _, err = l.DropBefore(ctx, start)
	must.OK(t, err)

	must.OK(t, l.SetPreferences(ctx, user, notify.Preferences{Caps: notify.Caps{1, 2, 3}}))
	for version := int64(2); version < int64(records); {
		c := oneAt(user, version, notify.Never, start)
		for len(c.Decided) < 500 {
			d := oneAt(user, version+int64(len(c.Decided)), notify.Never, start).Decided[0]
			d.Record.DuplicateOf = c.Decided[0].Record.EventID
			c.Decided = append(c.Decided, d)
		}
		must.OK(t, commitOne(l, c))
		version += int64(len(c.Decided))
	}
	at := standingOf(t, l, user).Version
	c := oneAt(user, at, notify.Now, start)
	c.State.Sends = []engine.Millis{start}
	for i := range 3 {
		d := oneAt(user, at+1+int64(i), []notify.Outcome{notify.Now, notify.Later, notify.Later}[i], start).Decided[0]
		if i == 2 {
			d.Record.DigestKey, d.Record.Slot = "PROMO of "+user, start+60_000
		}
		d.Record.Facts.RuleName = "for " + user
		c.Decided = append(c.Decided, d)
		c.State.Marks = append(c.State.Marks, notify.Mark{EventID: d.Event.ID, Type: notify.Update, At: start, Print: d.Record.Print})
	}
	must.OK(t, commitOne(l, c))
	for _, err := range l.Apply(ctx, []notify.Report{{Event: c.Decided[0].Event.ID, Status: notify.DeliveryFailed, At: start, Error: "no device of " + user}}) {
		must.OK(t, err)
	}
	return c.Decided[1]
}

func standingOf(t *testing.T, l *Ledger, user string) notify.Standing {
	t.Helper()
	all, err := l.Load(ctx, []notify.Ask{{User: user, Deferrals: true}})
	must.OK(t, err)
	return all[0]
}

// After an erasure no column of any table holds the user's id or texts, but the tombstone
// and keys a hash of the id. Other users keep what they have.
//
// Promise(ledger/erasure): Nothing of an erased user is written after the erasure; no column keeps an
// id or a text; an interrupted erasure goes on.
// Figure: 1,000 races: 0 revivals, 0 copies
func TestErasureLeavesNoCopy(t *testing.T) {
	url := newURL(t)
	l := openAt(t, url+"&pool_max_conns=1") // which tells its counts
	const user = "Kassandra-71"
	texts := []string{user, "Grüße", "shipped", "no device"}
	fillUser(t, l, "other", 1)
	fillUser(t, l, user, 2*blankedPerCall+1)
	var tables []string
	for _, place := range pgtest.Search(t, url, user) {
		_, place, _ = strings.Cut(place, " in ")
		place, _, _ = strings.Cut(place, ":")
		tables = append(tables, place)
	}
	for _, table := range []string{"notify_users", "notify_preferences", "notify_event_keys", "notify_deferrals", "notify_decisions_20260528"} {
		if !slices.Contains(tables, table) {
			t.Errorf("before the erasure, %s is not among the tables with the user: %v", table, tables)
		}
	}
	if places := pgtest.Search(t, url, texts[1:]...); len(places) < 3 {
		t.Errorf("before the erasure, texts are found in %v only", places)
	}
	before := pgtest.Search(t, url, "other")

	alone(t, l)
	read := scans(t, l)
	must.OK(t, l.Forget(ctx, user, start+5))
	if n := scans(t, l) - read; n > 0 {
		t.Errorf("the erasure read tables whole %d times", n)
	}
	if places := pgtest.Search(t, url, user); len(places) > 0 {
		t.Errorf("after the erasure: %v", places)
	}
	if after := pgtest.Search(t, url, "other"); !slices.Equal(after, before) {
		t.Errorf("of another user there was %v, and is %v", before, after)
	}
	named := pgtest.Search(t, url, notify.Tombstone(user))
	if len(named) != 2 || !strings.Contains(named[0], "notify_event_keys") || !strings.Contains(named[1], "notify_users: 1 rows") {
		t.Errorf("the tombstone is in %v", named)
	}
	must.OK(t, l.Forget(ctx, "other", start+5))
	if places := pgtest.Search(t, url, append(texts, "other")...); len(places) > 0 {
		t.Errorf("after the erasure of all users: %v", places)
	}
	if due, err := l.Claim(ctx, start*2, start*2, 9); err != nil || len(due) > 0 {
		t.Errorf("%d deferrals, %v", len(due), err)
	}
	// What comes late is stored without its texts.
	c := oneAt("other", standingOf(t, l, "other").Version, notify.Never, start+9)
	c.State.Erased = true
	must.OK(t, commitOne(l, c))
	if places := pgtest.Search(t, url, append(texts, "other")...); len(places) > 0 {
		t.Errorf("after a late event: %v", places)
	}
}

// An erasure that ended after its first transaction has ended all that can be sent; the
// next call blanks the rest.
//
// Promise(ledger/erasure)
func TestInterruptedErasure(t *testing.T) {
	url := newURL(t)
	l := openAt(t, url)
	const user = "Kassandra-71"
	waiting := fillUser(t, l, user, 1)
	before := standingOf(t, l, user)
	_, err := l.bury(ctx, user, start+5)
	must.OK(t, err)
	if s := standingOf(t, l, user); !s.State.Erased || len(s.Deferred) > 0 || s.Version != before.Version+1 || s.Preferences.Caps != (notify.Caps{}) {
		t.Errorf("the user is %+v", s)
	}
	if left, err := l.Undispatched(ctx, start*2, 9); err != nil || len(left) > 0 {
		t.Errorf("%d dispatches, %v", len(left), err)
	}
	stale := oneAt(user, before.Version, notify.Later, start+9)
	if err := commitOne(l, stale); engine.KindOf(err) == engine.Permanent || err == nil {
		t.Errorf("a decision from before: %v, want a conflict", err)
	}
	if err := commitOne(l, oneAt(user, 0, notify.Later, start+9)); err == nil {
		t.Error("the user is made again")
	}
	if places := pgtest.Search(t, url, user); len(places) == 0 {
		t.Error("there is nothing left to blank: the test shows nothing")
	}
	for range 2 {
		must.OK(t, l.Forget(ctx, user, start+6))
		if places := pgtest.Search(t, url, user); len(places) > 0 {
			t.Errorf("after the second call: %v", places)
		}
	}
	if v, err := ledger.Verify(ctx, l, user, 0); err != nil || len(v.Differences) > 0 || !v.Erased {
		t.Errorf("%+v, %v", v, err)
	}
	if d, err := l.Decision(ctx, waiting.Record.DecisionID); err != nil || d == nil || d.Event != nil {
		t.Errorf("%+v, %v", d, err)
	}
}

// Of two erasures of a user at once the second one finds what the first one has done.
//
// Promise(ledger/erasure)
func TestTwoErasuresAtOnce(t *testing.T) {
	l := openNew(t)
	must.OK(t, commitOne(l, one("a", notify.Later)))
	locked, err := l.pool.Begin(ctx)
	must.OK(t, err)
	_, err = locked.Exec(ctx, "SELECT FROM notify_users WHERE user_id = 'a' FOR UPDATE")
	must.OK(t, err)
	ended := make(chan error, 2)
	for range 2 {
		go func() { ended <- l.Forget(ctx, "a", start) }()
	}
	waiting(t, l, 2)
	must.OK(t, locked.Rollback(ctx))
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if s := standingOf(t, l, "a"); !s.State.Erased {
		t.Errorf("the user is %+v", s)
	}
}

// The database gives an erased user the name that the program gives.
func TestTombstonesAreTheSame(t *testing.T) {
	l := openNew(t)
	for _, user := range []string{"a", "17", " ", "Grüße", "\U0001F514", `'"\`, strings.Repeat("é", notify.MaxUserRunes)} {
		var name string
		must.OK(t, l.pool.QueryRow(ctx, "SELECT notify_tombstone($1)", user).Scan(&name))
		if name != notify.Tombstone(user) || len(name) <= notify.MaxUserRunes {
			t.Errorf("%q: %s, want %s", user, name, notify.Tombstone(user))
		}
	}
}

// A user who was erased before this version has the same name afterwards.
func TestTombstonesOfBefore(t *testing.T) {
	server := pgtest.Shared(t)
	url := server.URL(server.Database(t, ""))
	l := openAt(t, url)
	must.OK(t, l.setUp(ctx, 4))
	_, err := l.EnsurePartitions(ctx, start, 1)
	must.OK(t, err)
	erased := ledger.Erased(start, start)
	run(t, l, fmt.Sprintf(`INSERT INTO notify_users VALUES ('Kassandra-71', 3, '\x%x', now(), now()), ('other', 1, '', now(), NULL)`, erased.Append(nil)))
	run(t, l, `INSERT INTO notify_event_keys VALUES (gen_random_uuid(), 'Kassandra-71', 0, gen_random_uuid(), NULL, 'NEVER', false, now())`)
	must.OK(t, l.Setup(ctx))
	if places := pgtest.Search(t, url, "Kassandra-71"); len(places) > 0 {
		t.Errorf("%v", places)
	}
	if s := standingOf(t, l, "Kassandra-71"); s.Version != 3 || !s.State.Erased {
		t.Errorf("%+v", s)
	}
	must.OK(t, commitOne(l, oneAt("other", 1, notify.Now, start)))
}
