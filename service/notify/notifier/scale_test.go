package notifier_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/service/notify/notifier"
	"keyfold/sink/ledger/cache"
	"keyfold/sink/ledger/postgres"
	"keyfold/sink/ledgertest"
)

// decisions counts the deferrals that a ledger has decided, and keeps how late.
type decisions struct {
	*postgres.Ledger
	n    atomic.Int64
	mu   sync.Mutex
	lags []time.Duration
	took map[string][]time.Duration
	due  func(*notify.Decided) engine.Millis
}

func (d *decisions) timed(what string, began time.Time) {
	took := time.Since(began)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.took == nil {
		d.took = map[string][]time.Duration{}
	}
	d.took[what] = append(d.took[what], took)
}

func (d *decisions) NextDue(ctx context.Context) (engine.Millis, error) {
	defer d.timed("next due", time.Now())
	return d.Ledger.NextDue(ctx)
}

func (d *decisions) Claim(ctx context.Context, now, leaseEnd engine.Millis, n int) ([]notify.Due, error) {
	defer d.timed("claim", time.Now())
	return d.Ledger.Claim(ctx, now, leaseEnd, n)
}

func (d *decisions) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	began := time.Now()
	errs := d.Ledger.Commit(ctx, changes, marks)
	d.timed("commit", began)
	now := engine.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range changes {
		for j := range changes[i].Decided {
			if r := &changes[i].Decided[j]; errs[i] == nil && r.Record.Turn == 1 {
				d.n.Add(1)
				d.lags = append(d.lags, time.Duration(now-d.due(r))*time.Millisecond)
			}
		}
	}
	return errs
}

// calls describes how long the calls of the ledger took.
func (d *decisions) calls() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	for what, all := range d.took {
		slices.Sort(all)
		fmt.Fprintf(&b, "%s: %d calls, p50 %v, p99 %v; ", what, len(all), all[len(all)/2], all[len(all)*99/100])
	}
	return b.String()
}

// waiting is a database with deferrals of as many users: due of them are due at an
// instant, one more each pause after it, the others in an hour or more.
func waiting(t *testing.T, at engine.Millis, due, spread int, pause time.Duration, others int) *decisions {
	t.Helper()
	server := pgtest.Shared(t)
	url := server.URL(server.Database(t, ""))
	l, err := postgres.Open(url, 8)
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	must.OK(t, l.Setup(t.Context()))
	if _, err := l.EnsurePartitions(t.Context(), engine.Now(), 2); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	must.OK(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	body := strings.ReplaceAll(string(ledgertest.Event("user-name", notify.Alert, at).Body), "'", "''")
	_, id, _ := strings.Cut(body, `"event_id":"`)
	_, err = conn.Exec(t.Context(), fmt.Sprintf(`INSERT INTO notify_deferrals (event_id, user_id, turn, due_at, event, next_at)
		SELECT id, 'user ' || i, 1, due, replace(replace('%s', 'user-name', 'user ' || i), '%s', id::text), due
		FROM (SELECT i, gen_random_uuid() AS id, to_timestamp(%d / 1000.0) + CASE WHEN i < %d THEN interval '0'
			WHEN i < %d THEN (i - %d) * interval '%d milliseconds' ELSE (3600 + i / 100.0) * interval '1 second' END AS due
			FROM generate_series(0, %d) i) rows`,
		body, id[:36], at, due, due+spread, due, pause.Milliseconds(), due+spread+others-1))
	if err == nil {
		_, err = conn.Exec(t.Context(), "VACUUM ANALYZE")
	}
	must.OK(t, err)
	return &decisions{Ledger: l}
}

// shift has the first deferrals be due from now on, and returns by how much later.
func (d *decisions) shift(t *testing.T, first int) (by engine.Millis) {
	t.Helper()
	all, err := d.Deferrals(t.Context(), postgres.Waiting{}, first)
	if err != nil || len(all) != first {
		t.Fatalf("%d deferrals, %v", len(all), err)
	}
	by = engine.Now() + 500 - all[0].DueAt
	var changes []notify.Change
	for i := range all {
		changes = append(changes, notify.Change{User: all[i].Event.UserID, Postponed: []notify.Postponement{{
			EventID: all[i].Event.ID, DueAt: all[i].DueAt + by,
		}}})
	}
	for _, err := range d.Ledger.Commit(t.Context(), changes, nil) {
		must.OK(t, err)
	}
	return by
}

func soak(few, many int) int {
	if os.Getenv("KEYFOLD_SOAK") != "" {
		return many
	}
	return few
}

// Deferrals that are due at one instant are decided and dispatched, and their rows are
// gone: 100,000 of 1,000,000 with KEYFOLD_SOAK, in less than 60 s on two processors.
//
// Promise(ledger/claims)
func TestManyDueAtOnce(t *testing.T) {
	at := engine.Now()
	due := soak(2_000, 100_000)
	l := waiting(t, at, due, 0, 0, soak(2_000, 900_000))
	l.due = func(*notify.Decided) engine.Millis { return at }
	out := &counted{}
	began := time.Now()
	n := live(t, cache.New(l, 64<<20), out, func(c *notifier.Config) { c.Claim = 384 }, l)
	for next := at; next <= at+engine.Millis(time.Hour.Milliseconds()); time.Sleep(50 * time.Millisecond) {
		var err error
		if next, err = l.NextDue(t.Context()); err != nil || time.Since(began) > 5*time.Minute {
			t.Fatalf("%d of %d decided after %v, %v", l.n.Load(), due, time.Since(began), err)
		}
	}
	t.Logf("%d decided, dispatched and gone in %v; %s", due, time.Since(began), l.calls())
	stop(t, n)
	if got := l.n.Load(); got != int64(due) || out.sends.Load() != int64(due) {
		t.Errorf("%d decided, %d dispatched, want %d", got, out.sends.Load(), due)
	}
}

// counted confirms and counts.
type counted struct{ sends atomic.Int64 }

func (c *counted) Send(_ context.Context, all []notify.Dispatch) []error {
	c.sends.Add(int64(len(all)))
	return make([]error, len(all))
}

// While many wait, each is decided soon after its time, by two workers.
//
// Promise(ledger/deferrals)
func TestLagOfDeferrals(t *testing.T) {
	spread, pause := soak(500, 6_000), 5*time.Millisecond // 200 a second
	at := engine.Now()
	l := waiting(t, at, 0, spread, pause, soak(2_000, 1_000_000))
	at += l.shift(t, spread)
	times := map[string]engine.Millis{}
	all, err := l.Deferrals(t.Context(), postgres.Waiting{DueBefore: at + engine.Millis(pause.Milliseconds())*engine.Millis(spread)}, spread)
	if err != nil || len(all) != spread {
		t.Fatalf("%d deferrals, %v", len(all), err)
	}
	for i := range all {
		times[all[i].Event.UserID] = all[i].DueAt
	}
	l.due = func(d *notify.Decided) engine.Millis { return times[d.Record.UserID] }
	out := &counted{}
	var workers []*notifier.Notifier
	for range 2 {
		workers = append(workers, live(t, cache.New(l, 64<<20), out, func(c *notifier.Config) { c.Claim = 384 }, l))
	}
	for began := time.Now(); l.n.Load() < int64(spread); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("%d of %d decided", l.n.Load(), spread)
		}
	}
	for _, n := range workers {
		stop(t, n)
	}
	t.Log(l.calls())
	slices.Sort(l.lags)
	t.Logf("%d decided, lag p50 %v, p99 %v, most %v", len(l.lags), l.lags[len(l.lags)/2], l.lags[len(l.lags)*99/100], l.lags[len(l.lags)-1])
	if len(l.lags) != spread {
		t.Errorf("%d decided, want %d", len(l.lags), spread)
	}
}
