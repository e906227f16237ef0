package postgres

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledgertest"
)

// kept is a retention of 3 days of records and 2 days of keys.
var kept = Retention{Ahead: 3, Records: 3 * 24 * time.Hour, Keys: 2 * 24 * time.Hour}

// Promise(ledger/retention): Retention runs once at a time and goes on where a killed run ended; keys
// of events that wait stay; `--dry-run` tells beforehand.
// Promise(acceptance/c5): C5: old days are dropped without a long lock.
func TestRetain(t *testing.T) {
	l := openNew(t)
	now := start + 8*day // start's day ended long ago
	_, err := l.EnsurePartitions(ctx, start+4*day, 3)
	must.OK(t, err)
	events := map[string]uuid.UUID{}
	keep := func(name string, outcome notify.Outcome, at engine.Millis) {
		c := oneAt(name, 0, outcome, at)
		must.OK(t, commitOne(l, c))
		events[name] = c.Decided[0].Record.EventID
	}
	keep("never", notify.Never, start)
	keep("dispatched", notify.Now, start)
	keep("lost", notify.Now, start) // its record goes, so that it cannot be dispatched
	keep("later", notify.Later, start)
	keep("waiting", notify.Now, start+6*day-1000)
	keep("young", notify.Never, start+6*day)
	must.OK(t, errors.Join(l.Commit(ctx, nil, ledgertest.Dispatched(events["dispatched"]))...))

	plan, days, err := l.PlanRetention(ctx, now, kept)
	must.OK(t, err)
	if plan != (Retained{Made: 4, Dropped: 3, Keys: 3, Lost: 1, Ahead: -1}) || !slices.Equal(days, []engine.Millis{
		midnight(start), midnight(start) + day, midnight(start) + 4*day,
	}) {
		t.Errorf("the plan is %+v, of the days %v", plan, days)
	}
	done, err := l.Retain(ctx, now, kept)
	must.OK(t, err)
	if done.Lost != 1 {
		t.Errorf("%d keys of NOWs that were not dispatched were deleted, want 1", done.Lost)
	}
	if done.Made != 4 || done.Dropped != 3 || done.Keys != 3 || done.Ahead != 3 || done.Locked <= 0 {
		t.Errorf("done is %+v", done)
	}
	if days, err := l.Days(ctx); err != nil || !slices.Equal(days, []engine.Millis{
		midnight(start) + 5*day, midnight(start) + 6*day,
		midnight(now), midnight(now) + day, midnight(now) + 2*day, midnight(now) + 3*day,
	}) {
		t.Errorf("the days are %v, %v", days, err)
	}
	ask := notify.Ask{User: "a"}
	var left []string
	for name, event := range events {
		ask.Events = []uuid.UUID{event}
		found, err := l.Load(ctx, []notify.Ask{ask})
		if must.OK(t, err); found[0].Known[0].Outcome != 0 {
			left = append(left, name)
		}
	}
	if slices.Sort(left); !slices.Equal(left, []string{"later", "waiting", "young"}) {
		t.Errorf("the keys of %v are left", left)
	}
	if plan, days, err := l.PlanRetention(ctx, now, kept); err != nil || plan != (Retained{Ahead: 3}) || len(days) > 0 {
		t.Errorf("a plan again: %+v, %v, %v", plan, days, err)
	}
	if done, err := l.Retain(ctx, now, kept); err != nil || done.Made+done.Dropped != 0 || done.Keys != 0 || done.Ahead != 3 {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// A deferral whose turn is decided and that waits for its mark keeps its key: without
// the key, the event would be decided anew.
//
// Promise(ledger/retention)
func TestKeysOfDeferralsStay(t *testing.T) {
	l := openNew(t)
	c := oneAt("a", 0, notify.Later, start)
	must.OK(t, commitOne(l, c))
	e := c.Decided[0].Event
	must.OK(t, commitOne(l, notify.Change{
		User: "a", Version: 1, State: &notify.State{DecidedAt: start + 1},
		Decided: []notify.Decided{ledgertest.Decide(e, 2, 1, notify.Now, start+1)},
	}))
	done, err := l.Retain(ctx, start+8*day, kept)
	if must.OK(t, err); done.Dropped == 0 || done.Keys != 0 {
		t.Errorf("done is %+v, want that the record is dropped and the key stays", done)
	}
	must.OK(t, errors.Join(l.Commit(ctx, nil, ledgertest.Dispatched(e.ID))...)) // the mark ends the deferral
	if done, err = l.Retain(ctx, start+8*day, kept); err != nil || done.Keys != 1 {
		t.Errorf("after its mark: %+v, %v", done, err)
	}
}

// The key of a LATER that an erasure has left without a deferral goes with its time.
func TestKeysOfErasedUsersGo(t *testing.T) {
	l := openNew(t)
	must.OK(t, commitOne(l, oneAt("a", 0, notify.Later, start)))
	must.OK(t, commitOne(l, oneAt("b", 0, notify.Later, start)))
	must.OK(t, l.Forget(ctx, "a", start+1))
	plan, _, err := l.PlanRetention(ctx, start+8*day, kept)
	if must.OK(t, err); plan.Keys != 1 {
		t.Errorf("the plan has %d keys, want the one of the erased user", plan.Keys)
	}
	if done, err := l.Retain(ctx, start+8*day, kept); err != nil || done.Keys != 1 || done.Lost != 0 {
		t.Errorf("done is %+v, %v, want the one key of the erased user", done, err)
	}
}

// One call runs at a time. The lock of one that was killed is free.
//
// Promise(ledger/retention)
func TestRetainAlone(t *testing.T) {
	l := openNew(t)
	unlock, err := l.lockRetention(ctx)
	must.OK(t, err)
	if _, err := l.Retain(ctx, start, kept); !errors.Is(err, ErrBusy) {
		t.Errorf("beside another one: %v", err)
	}
	run(t, l, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()")
	defer unlock()
	for {
		_, err := l.Retain(ctx, start, kept)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrBusy) { // the session ends in its own time
			t.Fatal(err)
		}
	}
}

// A call that was cut goes on where it was: here between the detaching and the drop.
//
// Promise(ledger/retention)
func TestRetainIsResumed(t *testing.T) {
	l := openNew(t)
	run(t, l, "ALTER TABLE notify_decisions DETACH PARTITION "+start.Time().Format(partitionName))
	done, err := l.Retain(ctx, start+8*day, kept)
	if must.OK(t, err); done.Dropped != 2 {
		t.Errorf("done is %+v, want that the detached day is dropped too", done)
	}
}

// Keys are deleted in parts, each of a transaction of its own, and none is passed over.
// What a commit has locked is left to the next call.
//
// Promise(ledger/retention)
func TestKeysAreDeletedInParts(t *testing.T) {
	l := openNew(t)
	const final = 2*keysPerCall + 10
	run(t, l, `INSERT INTO notify_event_keys (event_id, user_id, turn, decision_id, outcome, dispatched, decided_at)
		SELECT gen_random_uuid(), 'a', 0, gen_random_uuid(), (ARRAY['NEVER', 'LATER'])[1 + i % 2]::notify_outcome, false,
			timestamptz 'epoch' + (i / 1000) * interval '1 second' FROM generate_series(0, $1 - 1) i`, 2*final)
	run(t, l, `INSERT INTO notify_deferrals (event_id, user_id, turn, due_at, event, next_at)
		SELECT event_id, 'a', 1, decided_at, '{"event_type":"PROMO"}', decided_at FROM notify_event_keys WHERE outcome = 'LATER'`)
	tx, err := l.pool.Begin(ctx)
	must.OK(t, err)
	_, err = tx.Exec(ctx, "SELECT FROM notify_event_keys WHERE outcome = 'NEVER' ORDER BY decided_at LIMIT 3 FOR UPDATE", pgx.QueryExecModeExec)
	must.OK(t, err)
	n, _, err := l.deleteKeys(ctx, start, 0)
	if must.OK(t, err); n != final-3 {
		t.Errorf("%d keys were deleted, want %d", n, final-3)
	}
	must.OK(t, tx.Rollback(ctx))
	if n, _, err = l.deleteKeys(ctx, start, 0); err != nil || n != 3 {
		t.Errorf("then %d, %v, want 3", n, err)
	}
}

func TestDaysAhead(t *testing.T) {
	l := openNew(t) // with the day of start and the next one
	for at, want := range map[engine.Millis]int{start - day: -1, start: 1, start + day: 0, start + 2*day: -1} {
		if ahead, err := l.DaysAhead(ctx, at); err != nil || ahead != want {
			t.Errorf("at %v: %d, %v, want %d", at.Time(), ahead, err, want)
		}
	}
	_, err := l.EnsurePartitions(ctx, start+3*day, 4) // a day is missing between
	must.OK(t, err)
	if ahead, err := l.DaysAhead(ctx, start); err != nil || ahead != 1 {
		t.Errorf("%d, %v, want 1: those after a gap do not count", ahead, err)
	}
	_, err = l.EnsurePartitions(ctx, engine.Now(), 6)
	must.OK(t, errors.Join(err, l.Check(ctx)))
	var set metric.Set
	var page strings.Builder
	l.Register(&set)
	set.WritePrometheus(&page)
	if !strings.Contains(page.String(), "keyfold_notify_partitions_ahead_days 5\n") && !strings.Contains(page.String(), "ahead_days 4\n") { // at midnight
		t.Errorf("the series are %s", page.String())
	}
	err = Retention{}.Validate()
	if err == nil || strings.Count(err.Error(), "at least") != 3 {
		t.Errorf("a retention of nothing: %v", err)
	}
}
