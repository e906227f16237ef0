package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
)

// TestNoSequentialScan makes 4,000 records and asks the server how often it has read a
// table of decisions from its beginning to its end: no call of the workers does.
//
// Promise(ledger/no-scans): No call of the workers reads the decisions whole.
// Figure: 20,000 records
func TestNoSequentialScan(t *testing.T) {
	url := newURL(t)
	l := openAt(t, url+"&pool_max_conns=1")
	const users, turns = 80, 50
	var digest, single uuid.UUID
	for user := range users {
		c := oneAt(fmt.Sprint(user), 0, notify.Now, start)
		for i := 1; i < turns; i++ {
			at := start + engine.Millis(i+user)*300_000
			d := oneAt(c.User, int64(i), notify.Outcome(1+i%3), at).Decided[0]
			if i == 3 {
				digest = uuid.New()
				d.Record.DigestID = digest
			}
			c.Decided, c.State.DecidedAt = append(c.Decided, d), at
		}
		if user == 0 {
			single = c.Decided[0].Record.DecisionID
		}
		must.OK(t, commitOne(l, c))
	}
	run(t, l, "ANALYZE")
	before := scans(t, l)
	callEach(t, l, single, digest)
	if after := scans(t, l); after != before {
		t.Errorf("the tables of decisions were read whole %d times", after-before)
	}
	_, err := l.Counts(ctx, ledger.Span{}) // it does: the test can fail
	must.OK(t, err)
	if after := scans(t, l); after == before {
		t.Error("the server did not count the reading of all records")
	}
}

// callEach makes each call of the workers and of the API, and logs how long it took.
// single is a NOW of an event of one turn, digest a digest's id.
func callEach(t *testing.T, l *Ledger, single, digest uuid.UUID) {
	t.Helper()
	call := func(name string, err error, began time.Time) {
		t.Helper()
		t.Logf("%-12s %v", name, time.Since(began).Round(100*time.Microsecond))
		must.OK(t, err)
	}
	began := time.Now()
	record, err := l.Decision(ctx, single)
	call("Decision", err, began)
	event, user := record.Record.EventID, record.Record.UserID

	began = time.Now()
	found, err := l.Decisions(ctx, []uuid.UUID{single, digest})
	if call("Decisions", err, began); len(found) != 1 {
		t.Fatalf("%d decisions, want the single one", len(found))
	}

	began = time.Now()
	standing, err := l.Load(ctx, []notify.Ask{{User: user, Events: []uuid.UUID{event}, Deferrals: true}})
	call("Load", err, began)

	began = time.Now()
	due, err := l.Claim(ctx, start*2, start*2, 100)
	call("Claim", err, began)
	began = time.Now()
	call("Release", l.Release(ctx, []uuid.UUID{due[0].Event.ID}), began)

	began = time.Now()
	_, err = l.Find(ctx, []uuid.UUID{single, digest, record.Record.DecisionID})
	call("Find", err, began)

	began = time.Now()
	waiting, err := l.Undispatched(ctx, start*2, 100)
	if call("Undispatched", err, began); len(waiting) == 0 {
		t.Fatal("no decision is not dispatched")
	}

	for name, mark := range map[string]notify.DispatchMark{"Commit": {Event: event}, "expired": {Event: waiting[1].Events[0].ID, Expired: true}} {
		began = time.Now()
		c := oneAt(name, 0, notify.Later, start)
		call(name, errors.Join(l.Commit(ctx, []notify.Change{c}, []notify.DispatchMark{mark})...), began)
	}
	for _, f := range []ledger.Filter{{User: user, Limit: 300}, {Event: event}, {Limit: 50}, {Oldest: true, Limit: 600}} {
		began = time.Now()
		for _, err := range l.Records(ctx, f) {
			must.OK(t, err)
		}
		call("Records", nil, began)
	}
	for _, r := range []notify.Report{
		{Decision: single, Status: notify.Delivered, Channel: notify.Push, At: start}, {Event: digest, Status: notify.DeliveryFailed, At: start},
	} {
		began = time.Now()
		call("Apply", errors.Join(l.Apply(ctx, []notify.Report{r})...), began)
	}
	began = time.Now()
	unreported, err := l.Unreported(ctx, start*2)
	if call("Unreported", err, began); unreported == 0 {
		t.Error("no decision lacks a report")
	}
	began = time.Now()
	call("Probe", l.probe(ctx, start), began)
	if began = time.Now(); standing[0].Version > 0 {
		call("Forget", l.Forget(ctx, user, start), began)
	}
}

// alone waits until no other connection to the database is left: the server counts what
// one has read when it ends, which may be after its client has closed it.
func alone(t *testing.T, l *Ledger) {
	t.Helper()
	for {
		var others int
		must.OK(t, l.pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()").Scan(&others))
		if others == 0 {
			return
		}
		must.OK(t, ctx.Err())
		time.Sleep(time.Millisecond)
	}
}

// scans returns how many sequential scans of decisions the server has counted.
func scans(t *testing.T, l *Ledger) (n int64) {
	t.Helper()
	run(t, l, "SELECT pg_stat_force_next_flush()")
	run(t, l, "SELECT 1") // the flush happens at the end of a transaction
	run(t, l, "SELECT pg_stat_clear_snapshot()")
	must.OK(t, l.pool.QueryRow(ctx, "SELECT coalesce(sum(seq_scan), 0)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'notify_decisions%'").Scan(&n))
	return n
}

// The record of an undispatched key is looked up in the partition of its day alone, and
// keys whose partition was dropped cost no look-up at all.
//
// Promise(ledger/dropped-records)
func TestUndispatchedReadsOnePartition(t *testing.T) {
	l := openNew(t)
	_, err := l.EnsurePartitions(ctx, start, 30)
	must.OK(t, err)
	run(t, l, `INSERT INTO notify_event_keys (event_id, user_id, turn, decision_id, outcome, dispatched, decided_at)
		SELECT gen_random_uuid(), 'a', 0, gen_random_uuid(), 'NOW', false, $1::timestamptz + i * interval '1 millisecond'
		FROM generate_series(1, 5000) i`, (start - 9*day).Time())
	must.OK(t, commitOne(l, one("b", notify.Now)))
	run(t, l, "ANALYZE")
	found, err := l.Undispatched(ctx, start+1, 1)
	if must.OK(t, err); len(found) != 1 {
		t.Fatalf("found %+v, want the one behind those without records", found)
	}
	lines, err := collect(ctx, l, "explain", pgx.RowTo[string], "EXPLAIN (ANALYZE, TIMING OFF) "+undispatchedKeys, (start + 1).Time(), 200)
	must.OK(t, err)
	read := 0
	for _, line := range lines {
		if strings.Contains(line, " on notify_decisions_") && !strings.Contains(line, "never executed") {
			read++
		}
	}
	if read != 1 {
		t.Errorf("%d partitions were read, want 1:\n%s", read, strings.Join(lines, "\n"))
	}
}
