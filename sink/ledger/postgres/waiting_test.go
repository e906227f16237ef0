package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledgertest"
)

const second = engine.Millis(1000)

// later stores a deferral of a new user.
func later(t *testing.T, l *Ledger, user string, kind notify.EventType, due engine.Millis) uuid.UUID {
	t.Helper()
	d := ledgertest.Decide(ledgertest.Event(user, kind, start), 1, 0, notify.Later, start)
	d.Record.DeferUntil = due
	must.OK(t, l.Commit(ctx, []notify.Change{{User: user, State: &notify.State{DecidedAt: start}, Decided: []notify.Decided{d}}}, nil)[0])
	return d.Event.ID
}

func TestDeferralsAreCountedListedAndReleased(t *testing.T) {
	l := openNew(t)
	if counts, err := l.CountDeferrals(ctx, start, 0); err != nil || len(counts) != 0 {
		t.Errorf("of an empty ledger: %+v, %v", counts, err)
	}
	claimed := later(t, l, "claimed", notify.Update, start)
	_, err := l.Claim(ctx, start, start+60*second, 1)
	must.OK(t, err)
	due := later(t, l, "due", notify.Update, start+1)
	now := start + 2
	soon := later(t, l, "soon", notify.Promo, now+60*second)
	hour := later(t, l, "hour", notify.Promo, now+61*second)
	tomorrow := later(t, l, "day", notify.Promo, now+3601*second)
	last := later(t, l, "later", notify.Security, now+86_401*second)
	counts, err := l.CountDeferrals(ctx, now, 0)
	must.OK(t, err)
	want := []ledger.DeferralCount{
		{Type: notify.Promo, Minute: 1, Hour: 1, Day: 1, Oldest: now + 60*second},
		{Type: notify.Security, Later: 1, Oldest: now + 86_401*second},
		{Type: notify.Update, Due: 1, Claimed: 1, Oldest: start},
	}
	for i := range want {
		if len(counts) != len(want) || counts[i] != want[i] {
			t.Fatalf("counts are\n%+v, want\n%+v", counts, want)
		}
	}

	bounded, err := l.CountDeferrals(ctx, now, 1)
	must.OK(t, err)
	if len(bounded) != 2 || bounded[0] != (ledger.DeferralCount{Type: notify.Promo, Minute: 1, Oldest: now + 60*second}) || bounded[1].Total() != 1 {
		t.Errorf("with a bound of one the first of each is counted: %+v", bounded)
	}

	list := func(w Waiting, n int, want ...uuid.UUID) []Deferral {
		t.Helper()
		all, err := l.Deferrals(ctx, w, n)
		must.OK(t, err)
		for i := range all {
			if len(all) != len(want) || all[i].Event.ID != want[i] {
				t.Fatalf("item %d of %d is of %s", i, len(all), all[i].Event.UserID)
			}
		}
		if len(all) != len(want) {
			t.Errorf("%d deferrals, want %d", len(all), len(want))
		}
		return all
	}
	all := list(Waiting{}, 100, claimed, due, soon, hour, tomorrow, last)
	if all[0].ClaimedUntil != start+60*second || all[0].DueAt != start || all[1].ClaimedUntil != 0 {
		t.Errorf("%+v", all[:2])
	}
	list(Waiting{}, 2, claimed, due)
	list(Waiting{User: "soon"}, 100, soon)
	list(Waiting{DueBefore: now + 61*second}, 100, claimed, due, soon)
	list(Waiting{Events: []uuid.UUID{last, uuid.New()}}, 100, last)
	list(Waiting{Events: []uuid.UUID{}}, 100)

	chosen := Waiting{Events: []uuid.UUID{claimed, due, hour, last}}
	if n, err := l.CountReleasable(ctx, now, chosen); n != 2 || err != nil {
		t.Errorf("%d could be released, %v", n, err)
	}
	if n, err := l.MakeDue(ctx, now, chosen); n != 2 || err != nil {
		t.Errorf("%d released, %v", n, err)
	}
	if n, err := l.MakeDue(ctx, now, Waiting{User: "day"}); n != 1 || err != nil {
		t.Errorf("%d released, %v", n, err)
	}
	items, err := l.Claim(ctx, now, now+60*second, 100)
	must.OK(t, err)
	if len(items) != 4 || items[1].DueAt != now {
		t.Errorf("claimed: %+v", items)
	}
}

func TestUndispatchedAreCounted(t *testing.T) {
	l := openNew(t)
	for i, user := range []string{"a", "b", "c"} {
		must.OK(t, commitOne(l, oneAt(user, 0, notify.Now, start+engine.Millis(i))))
	}
	if n, oldest, err := l.CountUndispatched(ctx, start+2); n != 2 || oldest != start || err != nil {
		t.Errorf("%d, the oldest of %d, %v", n, oldest-start, err)
	}
	if deferred, oldest, err := l.Backlog(ctx); deferred != 0 || oldest != start || err != nil {
		t.Errorf("the backlog: %d deferred, the oldest of %d, %v", deferred, oldest-start, err)
	}
	if n, oldest, err := l.CountUndispatched(ctx, start); n != 0 || oldest != 0 || err != nil {
		t.Errorf("%d, the oldest of %d, %v", n, oldest, err)
	}
}

// Counting what is not due reads no row, and so no text of an event.
//
// Promise(ledger/deferrals)
func TestCountsReadTheIndex(t *testing.T) {
	l := openAt(t, newURL(t)+"&pool_max_conns=1")
	due, later := sizes()
	fillDeferrals(t, l, due, later)
	if later < 100_000 { // so small a table is read whole sooner
		run(t, l, "SET enable_seqscan = off")
	}
	began := time.Now()
	counts, err := l.CountDeferrals(ctx, start, 0)
	must.OK(t, err)
	took := time.Since(began)
	rows, err := l.pool.Query(ctx, "EXPLAIN (ANALYZE, COSTS OFF) "+countDeferrals, start.Time(), nil)
	must.OK(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must.OK(t, err)
	plan := strings.Join(lines, "\n")
	t.Logf("%+v in %v\n%s", counts, took, plan)
	if !strings.Contains(plan, "Index Only Scan using notify_deferrals_due") {
		t.Errorf("the plan is\n%s", plan)
	}
}
