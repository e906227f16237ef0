package postgres

import (
	"bytes"
	"errors"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/sink/ledgertest"
)

// run runs statements in the ledger's database.
func run(t testing.TB, l *Ledger, statement string, args ...any) {
	t.Helper()
	_, err := l.pool.Exec(ctx, statement, args...)
	must.OK(t, err)
}

// relay passes bytes between clients and the server. While it is deaf, it ends a
// connection once the server has answered that a statement is done. It counts round
// trips: how often a client sends after the server has.
type relay struct {
	net.Listener
	deaf  atomic.Bool
	trips atomic.Int64
}

func newRelay(t *testing.T, target string) *relay {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	r := &relay{Listener: listener}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { r.pass(client, target, &group) })
		}
	})
	t.Cleanup(func() { listener.Close(); group.Wait() })
	return r
}

func (r *relay) pass(client net.Conn, target string, group *sync.WaitGroup) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	var answered atomic.Bool
	group.Go(func() {
		defer server.Close()
		_, _ = copyUntil(server, client, func([]byte) bool {
			if answered.Swap(false) {
				r.trips.Add(1)
			}
			return false
		})
	})
	// ReadyForQuery, outside a transaction: the commit has happened.
	_, _ = copyUntil(client, server, func(b []byte) bool {
		answered.Store(true)
		return r.deaf.Load() && bytes.HasSuffix(b, []byte("Z\x00\x00\x00\x05I"))
	})
}

// copyUntil copies until one of the connections ends, or stop says so of what was read.
func copyUntil(to, from net.Conn, stop func([]byte) bool) (int, error) {
	buffer := make([]byte, 1<<20)
	for {
		n, err := from.Read(buffer)
		if err != nil || stop(buffer[:n]) {
			return n, err
		}
		if n, err := to.Write(buffer[:n]); err != nil {
			return n, err
		}
	}
}

// TestLostAnswer cuts the connection after the server has committed: the answer is
// unknown, and Find tells what is stored.
//
// Promise(notify/lost-answer, ledger/restart)
func TestLostAnswer(t *testing.T) {
	server := pgtest.Shared(t)
	direct := newURL(t)
	r := newRelay(t, server.Address())
	l := openAt(t, strings.Replace(direct, server.Address(), r.Addr().String(), 1)+"&pool_max_conns=1")
	must.OK(t, l.Check(ctx)) // connected
	r.deaf.Store(true)
	changes := []notify.Change{one("a", notify.Now), one("b", notify.Later)}
	for i, err := range l.Commit(ctx, changes, nil) {
		if !errors.Is(err, engine.ErrUnknown) || !errors.Is(err, engine.ErrAway) || engine.KindOf(err) != engine.Transient {
			t.Fatalf("change %d: %v, want an unknown outcome of a server that is away: no attempt is used", i, err)
		}
	}
	r.deaf.Store(false)
	lost := one("c", notify.Now).Decided[0].Record.DecisionID
	found, err := l.Find(ctx, []uuid.UUID{lost, changes[1].Decided[0].Record.DecisionID, changes[0].Decided[0].Record.DecisionID})
	must.OK(t, err)
	if found[0].Outcome != 0 || found[1].Outcome != notify.Later || found[2].Outcome != notify.Now {
		t.Errorf("found %+v", found)
	}
	r.Close()
	l = openAt(t, strings.Replace(direct, server.Address(), "127.0.0.1:1", 1))
	for _, err := range []error{commitOne(l, one("d", notify.Now)), l.Check(ctx)} {
		if engine.KindOf(err) != engine.Transient || !errors.Is(err, engine.ErrAway) || errors.Is(err, engine.ErrUnknown) {
			t.Errorf("without a server: %v, want a transient error", err)
		}
	}
}

// TestServerRestarts kills the server: what was acknowledged is there afterwards, and
// the ledger goes on by itself.
//
// Promise(ledger/restart): A PostgreSQL that is killed or restarted is a transient fault: what was
// acknowledged is there, and work goes on by itself.
func TestServerRestarts(t *testing.T) {
	server := pgtest.Start(t)
	l := openAt(t, server.URL("postgres"))
	must.OK(t, l.Setup(ctx))
	_, err := l.EnsurePartitions(ctx, start, 1)
	must.OK(t, err)
	must.OK(t, commitOne(l, one("a", notify.Now)))
	server.Kill()
	if err := commitOne(l, one("b", notify.Now)); engine.KindOf(err) != engine.Transient || errors.Is(err, engine.ErrConflict) || err == nil {
		t.Errorf("without a server: %v, want a transient error", err)
	}
	server.Restart(t)
	// A connection of before may still have the end of its server to tell.
	err = commitOne(l, one("c", notify.Now))
	for err != nil && engine.KindOf(err) == engine.Transient && !errors.Is(err, engine.ErrConflict) {
		err = commitOne(l, one("c", notify.Now))
	}
	if !errors.Is(err, engine.ErrConflict) { // a commit whose outcome was unknown was carried out
		must.OK(t, err)
	}
	if n, err := l.Users(ctx); err != nil || n != 2 {
		t.Errorf("%d users, %v, want 2", n, err)
	}
}

// What is no address is refused, and no error shows the password.
func TestAddress(t *testing.T) {
	for _, text := range []string{"postgres://u:s3cret@[h/db", "host=h user=u password=s3cret dbname=d", "mysql://u:s3cret@h/d", "/s3cret"} {
		_, err := Open(text, 0)
		must.Fault(t, err, ReasonAddress, "postgres://")
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
	l, err := Open("postgresql://u:s3cret@h/d", 0)
	must.OK(t, err)
	must.OK(t, l.Close())
}

// Promise(ledger/mistakes): Wrong password, unknown database, missing tables or rights and newer
// tables are said with the cure, never with the password.
func TestConfigurationFaults(t *testing.T) {
	server := pgtest.Shared(t)
	must.Fault(t, openAt(t, server.URL("nowhere")).Check(ctx), ReasonAddress, "CREATE DATABASE")
	empty := openAt(t, server.URL(server.Database(t, "")))
	must.Fault(t, empty.Check(ctx), ReasonNotSetUp, "postgres.Setup")
	must.Fault(t, commitOne(empty, one("a", notify.Now)), ReasonNotSetUp, "postgres.Setup")

	l := openNew(t)
	must.OK(t, l.Setup(ctx)) // again
	must.OK(t, l.Check(ctx))
	run(t, l, "CREATE ROLE reader LOGIN PASSWORD 'x'")
	t.Cleanup(func() { server.Exec(t, "DROP ROLE reader") })
	reader := openAt(t, strings.Replace(l.pool.Config().ConnString(), "postgres@", "reader:x@", 1))
	must.Fault(t, commitOne(reader, one("a", notify.Now)), ReasonRights, "GRANT")
	must.OK(t, reader.Close())
	run(t, l, "INSERT INTO "+versionTable+" (version_id, is_applied) VALUES (99, true)")
	must.Fault(t, l.Check(ctx), ReasonSchema, "newer")
}

// The SQL that is printed makes what Setup makes.
func TestPrintedSQL(t *testing.T) {
	server := pgtest.Shared(t)
	l := openAt(t, server.URL(server.Database(t, "")))
	conn, err := l.pool.Acquire(ctx)
	must.OK(t, err)
	_, err = conn.Conn().PgConn().Exec(ctx, SQL()).ReadAll()
	conn.Release()
	must.OK(t, err)
	_, err = l.EnsurePartitions(ctx, start, 1)
	must.OK(t, err)
	must.OK(t, commitOne(l, one("a", notify.Later)))
}

// A row that is refused leaves the other changes written, and the marks set.
//
// Promise(ledger/refused-row): One refused row of a call makes its change alone permanent; the others
// are written, the marks set.
// Promise(ledger/missing-day): Events whose day has no partition are held, and the error names
// `keyfold notify retention`; other days go on.
func TestRefusedRows(t *testing.T) {
	l := openNew(t)
	sent := one("sent", notify.Now)
	must.OK(t, commitOne(l, sent))
	turn, deferred, long, nul := one("turn", notify.Now), one("later", notify.Later), one("x", notify.Now), one("nul", notify.Now)
	turn.Decided[0].Record.Turn = notify.MaxTurn + 1
	deferred.Decided[0].Record.DeferUntil = 0
	long.User = strings.Repeat("x", notify.MaxUserRunes+1)
	nul.Decided[0].Record.Source = "a\x00b"
	far := oneAt("far", 0, notify.Now, start+400*day)
	fine := one("fine", notify.Now)
	event := sent.Decided[0].Record.EventID
	answers := l.Commit(ctx, []notify.Change{turn, deferred, fine, long, far, nul}, ledgertest.Dispatched(event))
	for _, i := range []int{0, 1, 3, 5} {
		if engine.KindOf(answers[i]) != engine.Permanent || engine.ReasonOf(answers[i]) != ReasonRejected {
			t.Errorf("change %d: %v, want a permanent error", i, answers[i])
		}
	}
	must.OK(t, answers[2])
	must.Fault(t, answers[4], ReasonPartition, "postgres.Retention")
	standings, err := l.Load(ctx, []notify.Ask{{User: "sent", Events: []uuid.UUID{event}}, {User: "far"}})
	must.OK(t, err)
	if !standings[0].Known[0].Dispatched || standings[1].Version != 0 {
		t.Errorf("the users are %+v", standings)
	}
	_, err = l.EnsurePartitions(ctx, start+400*day, 1)
	must.OK(t, err)
	must.OK(t, commitOne(l, far))
}

// An instant that timestamptz cannot hold is refused, however far away it is: no other one is
// written in its place.
func TestInstantsBeyondTheServersAreRefused(t *testing.T) {
	l := openNew(t)
	for name, at := range map[string]engine.Millis{
		"after the last": afterLast, "beyond 64 bits of microseconds": math.MaxInt64 / 1000 * 2, "the greatest": math.MaxInt64,
		"before the first": beforeFirst, "the least": math.MinInt64,
	} {
		until, slot, decided, postponed, followed := one("until", notify.Later), one("slot", notify.Later), one("decided", notify.Now),
			one("postponed", notify.Later), one("followed", notify.Now)
		until.Decided[0].Record.DeferUntil, slot.Decided[0].Record.Slot, decided.Decided[0].Record.DecidedAt = at, at, at
		postponed.Postponed = []notify.Postponement{{EventID: uuid.New(), DueAt: at}}
		followed.FollowUps = []notify.Due{{Event: ledgertest.Event("followed", notify.Promo, start), DueAt: at}}
		for i, err := range l.Commit(ctx, []notify.Change{until, slot, decided, postponed, followed}, nil) {
			if engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != ReasonRejected {
				t.Errorf("%s, change %d: %v, want a permanent error", name, i, err)
			}
		}
	}
	if users, err := l.Users(ctx); err != nil || users != 0 {
		t.Errorf("%d users, %v", users, err)
	}
	for name, at := range map[string]engine.Millis{"the first": beforeFirst + 1, "the last": afterLast - 1} {
		c := one(name, notify.Later)
		c.Decided[0].Record.DeferUntil = at
		if err := commitOne(l, c); err != nil {
			t.Errorf("%s instant: %v", name, err)
		}
	}
}

func TestDamagedRows(t *testing.T) {
	for name, test := range map[string]struct {
		damage string
		read   func(*Ledger) error
	}{
		"state": {"UPDATE notify_users SET state = 'x'", func(l *Ledger) error {
			_, err := l.Load(ctx, []notify.Ask{{User: "a"}})
			return err
		}},
		"deferral": {"UPDATE notify_deferrals SET event = '{}'", func(l *Ledger) error {
			_, err := l.Claim(ctx, start*2, start*2, 9)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := openNew(t)
			must.OK(t, commitOne(l, one("a", notify.Later)))
			run(t, l, test.damage)
			must.Fault(t, test.read(l), ReasonCorrupt, "backup")
		})
	}
}

// A user whose row is damaged keeps no other one.
//
// Promise(ledger/damaged-user): Events of a user whose state or preferences are damaged are parked
// with no attempt used; all others go on.
func TestADamagedUserAmongOthers(t *testing.T) {
	l := openNew(t)
	for _, user := range []string{"a", "b", "c"} {
		must.OK(t, commitOne(l, one(user, notify.Later)))
	}
	must.OK(t, l.SetPreferences(ctx, "c", notify.Preferences{}))
	run(t, l, "UPDATE notify_users SET state = 'x' WHERE user_id = 'b'")
	run(t, l, "UPDATE notify_preferences SET preferences = '[]' WHERE user_id = 'c'")
	all, err := l.Load(ctx, []notify.Ask{{User: "b"}, {User: "a"}, {User: "c"}})
	must.Fault(t, err, ReasonCorrupt, "backup", `"b"`, `"c"`)
	unreadable, ok := errors.AsType[*notify.UnreadableError](err)
	if !ok || len(unreadable.Users) != 2 || unreadable.Users["b"] == nil || len(all) != 3 || all[1].Version != 1 || all[1].State == nil {
		t.Errorf("found %+v, %v, want that a is read", all, err)
	}
}

// A deferral that is damaged keeps no other one.
//
// Promise(ledger/damaged-deferral): A damaged deferral is told with the cure, and those claimed with
// it are decided.
func TestADamagedDeferralAmongOthers(t *testing.T) {
	l := openNew(t)
	for _, user := range []string{"a", "b", "c"} {
		must.OK(t, commitOne(l, one(user, notify.Later)))
	}
	run(t, l, "UPDATE notify_deferrals SET event = '{}' WHERE user_id = 'b'")
	due, err := l.Claim(ctx, start*2, start*2, 9)
	must.Fault(t, err, ReasonCorrupt, "backup")
	if len(due) != 2 || due[0].Event.UserID+due[1].Event.UserID != "ac" {
		t.Errorf("%+v are claimed, want those of a and c", due)
	}
}

// The kinds of the server's answers: what may pass, what may have happened, and what
// is of the row.
func TestKindsOfErrors(t *testing.T) {
	for code, want := range map[string]struct {
		kind          engine.Kind
		away, unknown bool
	}{
		"40001": {engine.Transient, false, false},
		"40P01": {engine.Transient, false, false},
		"55P03": {engine.Transient, false, false},
		"57014": {engine.Transient, false, false},
		"57P01": {engine.Transient, true, true},
		"57P03": {engine.Transient, true, true},
		"08006": {engine.Transient, true, true},
		"53300": {engine.Transient, true, false},
		"25006": {engine.Transient, true, false},
		"22021": {engine.Permanent, false, false},
		"23502": {engine.Permanent, false, false},
		"28P01": {engine.Configuration, false, false},
		"3D000": {engine.Configuration, false, false},
		"42P01": {engine.Configuration, false, false},
		"42501": {engine.Configuration, false, false},
	} {
		err := &pgconn.PgError{Code: code}
		marked := mark(ctx, "test", err)
		if engine.KindOf(marked) != want.kind || errors.Is(marked, engine.ErrAway) != want.away || unknown(err) != want.unknown {
			t.Errorf("%s is %v, unknown is %t", code, marked, unknown(err))
		}
	}
}
