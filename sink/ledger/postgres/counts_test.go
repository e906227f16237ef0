package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
)

// A count with a bound reads the partitions of its days alone, by their key.
func TestCountsReadTheirDays(t *testing.T) {
	l := openNew(t)
	const hour = engine.Millis(3_600_000)
	_, err := l.EnsurePartitions(ctx, start, 3)
	must.OK(t, err)
	for i := range 3 {
		must.OK(t, commitOne(l, oneAt(fmt.Sprint(i), 0, notify.Now, start+engine.Millis(24*i)*hour)))
	}
	run(t, l, "SET enable_seqscan = off")
	rows, err := l.pool.Query(ctx, "EXPLAIN "+countsOf, start.Time(), (start + hour).Time(), int64(100))
	must.OK(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must.OK(t, err)
	plan := strings.Join(lines, "\n")
	if strings.Count(plan, " on notify_decisions") != 1 || !strings.Contains(plan, "Index Scan using") {
		t.Errorf("the plan of an hour is\n%s", plan)
	}
	counts, err := l.Counts(ctx, ledger.Span{From: start, To: start + hour, Most: 100})
	if err != nil || len(counts) != 1 || counts[0].N != 1 {
		t.Errorf("an hour has %v, %v", counts, err)
	}
}

// A count that takes long is ended by the server, and says so; one without a bound goes on.
func TestCountsAreEnded(t *testing.T) {
	l := openNew(t)
	must.OK(t, commitOne(l, oneAt("a", 0, notify.Now, start)))
	lock, err := l.pool.Begin(ctx)
	must.OK(t, err)
	_, err = lock.Exec(ctx, "LOCK TABLE notify_decisions, notify_deferrals IN ACCESS EXCLUSIVE MODE")
	must.OK(t, err)
	if _, err := l.Counts(ctx, ledger.Span{Most: 1}); !errors.Is(err, ledger.ErrTooMany) {
		t.Errorf("a count that takes long: %v", err)
	}
	if _, err := l.CountDeferrals(ctx, start, 1); !errors.Is(err, ledger.ErrTooMany) {
		t.Errorf("a count of deferrals that takes long: %v", err)
	}
	must.OK(t, lock.Rollback(ctx))
	if counts, err := l.Counts(ctx, ledger.Span{Most: 9}); err != nil || len(counts) != 1 {
		t.Errorf("afterwards: %v, %v", counts, err)
	}
}
