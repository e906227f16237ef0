package postgres

import (
	"errors"
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
)

// Promise(ledger/making-days): Commits go on while daily partitions are made and dropped; a call that
// died is completed by the next one.
// Promise(ledger/missing-day)
func TestPartitions(t *testing.T) {
	l := openNew(t) // with two days
	midnight := midnight(start)
	expect := func(days ...engine.Millis) {
		t.Helper()
		for i := range days {
			days[i] = midnight + days[i]*day
		}
		if got, err := l.Days(ctx); err != nil || !slices.Equal(got, days) {
			t.Fatalf("the days are %v, %v, want %v", got, err, days)
		}
	}
	expect(0, 1)
	made, err := l.EnsurePartitions(ctx, midnight+day, 3)
	if err != nil || made != 2 {
		t.Fatalf("%d were made, %v, want 2", made, err)
	}
	expect(0, 1, 2, 3)
	for i, at := range []engine.Millis{midnight, midnight + day - 1, midnight + day, midnight + 4*day - 1} {
		must.OK(t, commitOne(l, oneAt(string(rune('a'+i)), 0, notify.Now, at)))
	}
	must.Fault(t, commitOne(l, oneAt("x", 0, notify.Now, midnight+4*day)), ReasonPartition, "postgres.Retention")
	must.Fault(t, commitOne(l, oneAt("x", 0, notify.Now, midnight-1)), ReasonPartition)

	dropped, _, err := l.DropBefore(ctx, midnight+2*day-1)
	if err != nil || dropped != 1 {
		t.Fatalf("%d were dropped, %v, want 1", dropped, err)
	}
	expect(1, 2, 3)
	counts, err := l.Counts(ctx, ledger.Span{})
	if err != nil || len(counts) != 1 || counts[0].N != 2 {
		t.Errorf("the counts are %v, %v, want 2 records", counts, err)
	}
	// A call that died after the detaching left a table.
	run(t, l, "ALTER TABLE notify_decisions DETACH PARTITION "+(midnight+day).Time().UTC().Format(partitionName))
	_, err = l.EnsurePartitions(ctx, midnight+day, 1)
	must.Fault(t, err, ReasonSchema, "detached")
	if dropped, _, err := l.DropBefore(ctx, midnight+2*day); err != nil || dropped != 1 {
		t.Fatalf("%d were dropped, %v, want the detached one", dropped, err)
	}
	expect(2, 3)
}

// A transaction that has written to a day keeps its lock. Dropping waits without
// keeping commits out for long, and says so when it gives up.
//
// Promise(ledger/making-days, acceptance/c5)
func TestDropWaits(t *testing.T) {
	l := openNew(t)
	must.OK(t, commitOne(l, one("a", notify.Now)))
	tx, err := l.pool.Begin(ctx)
	must.OK(t, err)
	_, err = tx.Exec(ctx, "DELETE FROM notify_decisions")
	must.OK(t, err)
	dropped := make(chan error, 1)
	go func() {
		_, _, err := l.DropBefore(ctx, start+day)
		dropped <- err
	}()
	for i := range 20 { // commits go on meanwhile
		must.OK(t, commitOne(l, oneAt("b", int64(i), notify.Now, start)))
	}
	must.OK(t, tx.Rollback(ctx))
	if err := <-dropped; err != nil && !errors.Is(err, engine.ErrAway) {
		t.Error(err)
	}
	if days, err := l.Days(ctx); err != nil || len(days) != 1 {
		t.Errorf("the days are %v, %v, want one", days, err)
	}
}
