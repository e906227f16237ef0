package postgres

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
)

// explained opens a ledger of one connection, on which the server compiles each plan that
// it may compile and tells the plan of each query as it was run.
func explained(t *testing.T, url string) (l *Ledger, plans func() string) {
	t.Helper()
	var mu sync.Mutex
	var told strings.Builder
	config := openAt(t, url).pool.Config()
	config.MaxConns = 1
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		mu.Lock()
		defer mu.Unlock()
		told.WriteString(n.Message + "\n")
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	must.OK(t, err)
	t.Cleanup(pool.Close)
	l = &Ledger{Timeout: 6 * defaultTimeout, pool: pool} // to compile each plan takes long
	for _, s := range []string{
		"LOAD 'auto_explain'", "SET auto_explain.log_min_duration = 0", "SET auto_explain.log_analyze = on", "SET auto_explain.log_timing = off",
		"SET jit = on", "SET jit_above_cost = 0", "SET client_min_messages = log",
	} {
		run(t, l, s)
	}
	return l, func() string {
		mu.Lock()
		defer mu.Unlock()
		text := told.String()
		told.Reset()
		return text
	}
}

// With the 98 partitions of 90 days and a week, the looks for what is not dispatched read
// the partition of one day, and the server compiles nothing.
//
// Promise(notify-worker/98-partitions): With 98 daily partitions the look for what is not dispatched
// reads one and compiles none.
func TestUndispatchedOf98PartitionsIsNotCompiled(t *testing.T) {
	l, plans := explained(t, newURL(t))
	_, err := l.EnsurePartitions(ctx, start, 98)
	must.OK(t, err)
	must.OK(t, commitOne(l, oneAt("b", 0, notify.Now, start+50*day)))
	run(t, l, "ANALYZE")
	before := start + 60*day
	for name, look := range map[string]func() error{
		"CountUndispatched": func() error { _, _, err := l.CountUndispatched(ctx, before); return err },
		"Undispatched":      func() error { _, err := l.Undispatched(ctx, before, 100); return err },
		"Backlog":           func() error { _, _, err := l.Backlog(ctx); return err },
	} {
		plans()
		must.OK(t, look())
		looked := 0
		for plan := range strings.SplitSeq(plans(), "duration: ") {
			named := strings.Count(plan, " on notify_decisions_")
			if read := named - strings.Count(plan, "(never executed)"); named > 0 {
				if looked++; read != 1 {
					t.Errorf("%s: %d of %d partitions were read, want 1:\n%s", name, read, named, plan)
				}
			}
			if strings.Contains(plan, "JIT:") && !strings.Contains(plan, "FROM notify_deferrals LIMIT") {
				t.Errorf("%s: the plan was compiled:\n%s", name, plan)
			}
		}
		if looked == 0 {
			t.Errorf("%s: no plan was told", name)
		}
	}
	var compiles bool
	must.OK(t, l.pool.QueryRow(ctx, "SELECT pg_jit_available()").Scan(&compiles))
	if !compiles {
		t.Error("this server compiles nothing: install its JIT provider (llvmjit), or the test tells nothing")
	}
}

// With 98 partitions the server compiles no plan of a merge or an erasure that names them.
func TestMergesOf98PartitionsAreNotCompiled(t *testing.T) {
	l, plans := explained(t, newURL(t))
	_, err := l.EnsurePartitions(ctx, start, 98)
	must.OK(t, err)
	for _, user := range []string{"alias", "into"} {
		must.OK(t, commitOne(l, oneAt(user, 0, notify.Now, start+50*day)))
	}
	m := mergeOf(t, l, "alias", "into")
	for i, call := range []func() error{
		func() error { _, err := l.Merge(ctx, m); return err },
		func() error { return l.Forget(ctx, "into", start) },
	} {
		plans()
		must.OK(t, call())
		told := 0
		for plan := range strings.SplitSeq(plans(), "duration: ") {
			if !strings.Contains(plan, " on notify_decisions_") {
				continue
			}
			if told++; strings.Contains(plan, "JIT:") {
				t.Errorf("call %d: the plan was compiled:\n%s", i, plan)
			}
		}
		if told == 0 {
			t.Errorf("call %d: no plan was told", i)
		}
	}
}
