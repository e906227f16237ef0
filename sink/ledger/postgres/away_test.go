package postgres

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledgertest"
)

// TestServerIsKilledUnderLoad has writers go on while the server is killed and started
// again. What was acknowledged is stored. What the server could not be asked is not.
// Of the rest the outcome is unknown, and each error is one of these.
//
// Promise(ledger/killed): When PostgreSQL is killed under load, acknowledged changes are there and
// those called away are not; the rest is called unknown.
func TestServerIsKilledUnderLoad(t *testing.T) {
	server := pgtest.Start(t)
	l := openAt(t, server.URL("postgres"))
	must.OK(t, l.Setup(ctx))
	_, err := l.EnsurePartitions(ctx, start, 1)
	must.OK(t, err)
	stop := make(chan struct{})
	answers := make([]map[uuid.UUID]error, 4)
	var group sync.WaitGroup
	var acknowledged atomic.Int64
	for w := range answers {
		answers[w] = map[uuid.UUID]error{}
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				c := one(fmt.Sprint(w, " ", i), notify.Now)
				answer := commitOne(l, c)
				if answers[w][c.Decided[0].Record.DecisionID] = answer; answer == nil {
					acknowledged.Add(1)
				}
			}
		})
	}
	for acknowledged.Load() < 20 {
		time.Sleep(time.Millisecond)
	}
	server.Kill()
	time.Sleep(10 * time.Millisecond) // calls fail meanwhile
	server.Restart(t)
	must.OK(t, commitOne(l, one("last", notify.Now)))
	close(stop)
	group.Wait()
	for _, all := range answers {
		for id, answer := range all {
			found, err := l.Find(ctx, []uuid.UUID{id})
			must.OK(t, err)
			there := found[0].Outcome != 0
			switch {
			case answer == nil:
				if !there {
					t.Errorf("decision %s was acknowledged and is lost", id)
				}
			case errors.Is(answer, engine.ErrUnknown):
			case errors.Is(answer, engine.ErrAway) && !there:
			default:
				t.Errorf("decision %s, stored: %t: %v", id, there, answer)
			}
		}
	}
}

// A server that does not answer is away after the timeout. Whether it has carried out a
// commit is unknown.
//
// Promise(ledger/frozen): A PostgreSQL that does not answer, is full or takes no writes is away within
// 10 s; a commit without an answer is called unknown.
func TestFrozenServer(t *testing.T) {
	server := pgtest.Shared(t)
	proxy := rabbittest.NewProxy(t, server.Address())
	l := openAt(t, strings.Replace(newURL(t), server.Address(), proxy.Address(), 1))
	must.OK(t, l.Check(ctx)) // connected
	l.Timeout = 100 * time.Millisecond
	proxy.Freeze()
	defer proxy.Thaw()
	err := commitOne(l, one("a", notify.Now))
	if !errors.Is(err, engine.ErrUnknown) {
		t.Errorf("a commit without an answer: %v, want unknown", err)
	}
	_, err = l.Load(ctx, []notify.Ask{{User: "a"}})
	if !errors.Is(err, engine.ErrAway) || errors.Is(err, engine.ErrUnknown) || !strings.Contains(err.Error(), "100ms") {
		t.Errorf("a read without an answer: %v, want away", err)
	}
}

// Errors of the server that say that nothing of a call was written.
//
// Promise(ledger/locked-user): A user's locked row fails that user's change after 2 s and parks its
// events after five tries; others are written, no breaker opens.
// Promise(ledger/frozen)
func TestNothingWasWritten(t *testing.T) {
	t.Run("too many connections", func(t *testing.T) {
		l := openNew(t)
		run(t, l, "CREATE ROLE crowd LOGIN CONNECTION LIMIT 0")
		t.Cleanup(func() { pgtest.Shared(t).Exec(t, "DROP ROLE crowd") })
		crowd := openAt(t, strings.Replace(l.pool.Config().ConnString(), "postgres@", "crowd@", 1))
		err := commitOne(crowd, one("a", notify.Now))
		if !errors.Is(err, engine.ErrAway) || errors.Is(err, engine.ErrUnknown) || codeOf(err) != "53300" {
			t.Errorf("the error is %v, want away", err)
		}
	})
	t.Run("serialization", func(t *testing.T) {
		l, held := lockedUser(t, "&default_transaction_isolation=repeatable%20read")
		answer := make(chan error, 1)
		go func() { answer <- commitOne(l, oneAt("locked", 1, notify.Now, start)) }()
		awaitLockWait(t, l)
		must.OK(t, held.Commit(ctx))
		if err := <-answer; !errors.Is(err, engine.ErrConflict) || codeOf(err) != codeSerialization {
			t.Errorf("the error is %v, want a conflict", err)
		}
	})
	t.Run("deadlock", func(t *testing.T) {
		l, held := lockedUser(t, "&deadlock_timeout=200ms")
		must.OK(t, commitOne(l, one("a", notify.Now)))
		answer := make(chan []error, 1)
		go func() {
			answer <- l.Commit(ctx, []notify.Change{oneAt("a", 1, notify.Now, start), oneAt("locked", 1, notify.Now, start)}, nil)
		}()
		awaitLockWait(t, l)
		_, err := held.Exec(ctx, "UPDATE notify_users SET version = version WHERE user_id = 'a'")
		must.OK(t, errors.Join(err, held.Rollback(ctx)))
		for _, err := range <-answer {
			if !errors.Is(err, engine.ErrConflict) || codeOf(err) != codeDeadlock {
				t.Errorf("the error is %v, want a conflict", err)
			}
		}
	})
	t.Run("lock", func(t *testing.T) { // the other users of the call are written
		l, held := lockedUser(t, "")
		run(t, l, "ALTER FUNCTION notify_commit SET lock_timeout = '50ms'")
		free := one("free", notify.Now)
		answers := l.Commit(ctx, []notify.Change{oneAt("locked", 1, notify.Now, start), free}, nil)
		must.OK(t, answers[1])
		err := answers[0]
		if engine.KindOf(err) != engine.Transient || errors.Is(err, engine.ErrAway) || errors.Is(err, engine.ErrUnknown) || !strings.Contains(err.Error(), "idle in transaction") {
			t.Errorf("the error is %v, want a transient one", err)
		}
		if !errors.Is(err, engine.ErrOwn) || !strings.Contains(err.Error(), `"locked"`) {
			t.Errorf("the error is %v, want the user's own", err)
		}
		sent := free.Decided[0].Record.EventID
		answers = l.Commit(ctx, []notify.Change{oneAt("locked", 1, notify.Now, start)}, ledgertest.Dispatched(sent))
		if len(answers) != 1 || !errors.Is(answers[0], engine.ErrOwn) {
			t.Errorf("beside a mark: %v, want the user's own error and the mark written", answers)
		}
		must.OK(t, held.Rollback(ctx))
		must.OK(t, commitOne(l, oneAt("locked", 1, notify.Now, start)))
		tx, err := l.pool.Begin(ctx) // a lock that is no change's
		must.OK(t, err)
		_, err = tx.Exec(ctx, "LOCK TABLE notify_event_keys")
		must.OK(t, err)
		answers = l.Commit(ctx, nil, ledgertest.Dispatched(sent))
		if len(answers) != 1 || codeOf(answers[0]) != codeLocked || errors.Is(answers[0], engine.ErrOwn) {
			t.Errorf("marks alone: %v, want that the call failed", answers)
		}
		must.OK(t, tx.Rollback(ctx))
	})
}

// Each statement of a transaction ends at the call's timeout.
//
// Promise(ledger/frozen)
func TestTransactionEndsAtItsTimeout(t *testing.T) {
	l, held := lockedUser(t, "")
	l.Timeout = 100 * time.Millisecond
	for name, err := range map[string]error{
		"preferences": l.SetPreferences(ctx, "locked", notify.Preferences{}), "erasure": l.Forget(ctx, "locked", start),
	} {
		if !errors.Is(err, engine.ErrAway) || errors.Is(err, engine.ErrUnknown) {
			t.Errorf("%s: %v, want away", name, err)
		}
	}
	must.OK(t, held.Rollback(ctx))
	l.Timeout = defaultTimeout // a connection is opened in place of the one that the timeout ended
	must.OK(t, l.SetPreferences(ctx, "locked", notify.Preferences{}))
}

// lockedUser returns a ledger, and a transaction of another session that has locked the
// user named locked, whose version is 1.
func lockedUser(t *testing.T, settings string) (*Ledger, pgx.Tx) {
	t.Helper()
	l := openAt(t, newURL(t)+settings)
	must.OK(t, commitOne(l, one("locked", notify.Now)))
	tx, err := l.pool.Begin(ctx)
	must.OK(t, err)
	t.Cleanup(func() { _ = tx.Rollback(ctx) })
	_, err = tx.Exec(ctx, "SET LOCAL deadlock_timeout = '1h'") // the commit is the one that ends
	must.OK(t, err)
	_, err = tx.Exec(ctx, "UPDATE notify_users SET version = version WHERE user_id = 'locked'")
	must.OK(t, err)
	return l, tx
}

// awaitLockWait waits until a session of the ledger's database waits for a lock.
func awaitLockWait(t *testing.T, l *Ledger) {
	t.Helper()
	for range 2000 {
		var n int
		must.OK(t, l.pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n))
		if n > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no session waits for a lock")
}
