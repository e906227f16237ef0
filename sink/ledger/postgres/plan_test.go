package postgres

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// TestNoSequentialScan makes 20,000 records and asks the server how often it has read a
// table of decisions from its beginning to its end: no call of the workers does.
func TestNoSequentialScan(t *testing.T) {
	url := newURL(t)
	l := openAt(t, url+"&pool_max_conns=1")
	const users, turns = 200, 100
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
		must(t, commitOne(l, c))
	}
	run(t, l, "ANALYZE")
	before := scans(t, l)
	record, err := l.Decision(ctx, single)
	must(t, err)
	event := record.Record.EventID
	_, err = l.Load(ctx, []notify.Ask{{User: "7", Events: []uuid.UUID{event}, Deferrals: true}})
	must(t, err)
	due, err := l.Claim(ctx, start*2, start*2, 100)
	must(t, err)
	must(t, l.Release(ctx, []uuid.UUID{due[0].Event.ID}))
	_, err = l.Find(ctx, []uuid.UUID{single, digest, record.Record.DecisionID})
	must(t, err)
	waiting, err := l.Undispatched(ctx, start*2, 100)
	if err != nil || len(waiting) == 0 {
		t.Fatalf("%d dispatches, %v", len(waiting), err)
	}
	must(t, l.Commit(ctx, []notify.Change{oneAt("7", turns, notify.Later, start)}, []uuid.UUID{event})[0])
	for _, f := range []ledger.Filter{{User: "7"}, {Event: event}, {Limit: 50}, {Oldest: true, Limit: 600}} {
		for _, err := range l.Records(ctx, f) {
			must(t, err)
		}
	}
	must(t, l.Forget(ctx, "9", start))
	if after := scans(t, l); after != before {
		t.Errorf("the tables of decisions were read whole %d times", after-before)
	}
	_, err = l.Counts(ctx) // it does: the test can fail
	must(t, err)
	if after := scans(t, l); after == before {
		t.Error("the server did not count the reading of all records")
	}
}

// scans returns how many sequential scans of decisions the server has counted.
func scans(t *testing.T, l *Ledger) (n int64) {
	t.Helper()
	run(t, l, "SELECT pg_stat_force_next_flush()")
	run(t, l, "SELECT 1") // the flush happens at the end of a transaction
	run(t, l, "SELECT pg_stat_clear_snapshot()")
	must(t, l.pool.QueryRow(ctx, "SELECT coalesce(sum(seq_scan), 0)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'notify_decisions%'").Scan(&n))
	return n
}
