package postgres

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/process"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledgertest"
)

var ctx = context.Background()

// start is when the tests' first events come, as in package ledgertest.
const start = engine.Millis(1_780_000_000_000)

func TestMain(m *testing.M) { process.Main(m) }

// template returns a database that is set up, with partitions for two days.
var template = func() func(testing.TB) string {
	var once sync.Once
	const name = "template_ledger"
	return func(t testing.TB) string {
		t.Helper()
		once.Do(func() {
			server := pgtest.Shared(t)
			server.Exec(t, "CREATE DATABASE "+name)
			l := openAt(t, server.URL(name))
			must.OK(t, l.Setup(ctx))
			made, err := l.EnsurePartitions(ctx, start, 2)
			if err != nil || made != 2 {
				t.Fatalf("%d partitions were made, %v", made, err)
			}
			must.OK(t, l.Close()) // a copy is made of a database without connections
		})
		return name
	}
}()

// openAt opens a ledger that is closed when the test ends.
func openAt(t testing.TB, url string) *Ledger {
	t.Helper()
	l, err := Open(url, 0)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, l.Close()) })
	return l
}

// newURL returns the address of a database of the test's own, ready for use.
func newURL(t testing.TB) string {
	t.Helper()
	server := pgtest.Shared(t)
	return server.URL(server.Database(t, template(t)))
}

func openNew(t testing.TB) *Ledger {
	t.Helper()
	return openAt(t, newURL(t))
}

// Promise(ledger/dropped-records): Dropped records whose NOW was never dispatched delay no later one;
// their deferrals are marked and end.
// Figure: 5,000 such keys in 5 ms
// Promise(notify/one-sweeps, ledger/contention, ledger/erasure, ledger/reports)
// Promise(ledger/expired-report)
func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Store {
		url := newURL(t)
		l := openAt(t, url)
		if strings.HasSuffix(t.Name(), "/Model") { // its histories are 1,000 minutes apart; days would make it slow
			run(t, l, "CREATE TABLE wide PARTITION OF notify_decisions FOR VALUES FROM ('2026-05-30Z') TO ('2028-01-01Z')")
		}
		return ledgertest.Store{Ledger: l, Reopen: func() ledgertest.Store {
			must.OK(t, l.Close())
			return ledgertest.Store{Ledger: openAt(t, url)}
		}, Drop: func(t *testing.T, decision uuid.UUID) {
			run(t, l, "DELETE FROM notify_decisions WHERE decision_id = $1::uuid", decision.String())
		}}
	})
}

// one returns a change of a new user with one decision.
func one(user string, outcome notify.Outcome) notify.Change { return oneAt(user, 0, outcome, start) }

func oneAt(user string, version int64, outcome notify.Outcome, at engine.Millis) notify.Change {
	d := ledgertest.Decide(ledgertest.Event(user, notify.Update, at), version+1, 0, outcome, at)
	return notify.Change{User: user, Version: version, State: &notify.State{DecidedAt: at}, Decided: []notify.Decided{d}}
}

func commitOne(l *Ledger, c notify.Change) error { return l.Commit(ctx, []notify.Change{c}, nil)[0] }
