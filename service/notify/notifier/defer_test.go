package notifier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/notifier"
	"keyfold/sink/ledger/memory"
	"keyfold/sink/ledgertest"
)

// store is a ledger whose calls take time and are counted.
type store struct {
	*memory.Ledger
	takes           time.Duration // a commit
	claims, nextDue atomic.Int64
	broken          atomic.Bool
	locked          atomic.Bool // another session has locked users whose names begin with locked

	mu   sync.Mutex
	lags []time.Duration // from when a deferral was due to its record
}

func (s *store) Claim(ctx context.Context, now, leaseEnd engine.Millis, n int) ([]notify.Due, error) {
	s.claims.Add(1)
	return s.Ledger.Claim(ctx, now, leaseEnd, n)
}

func (s *store) NextDue(ctx context.Context) (engine.Millis, error) {
	s.nextDue.Add(1)
	return s.Ledger.NextDue(ctx)
}

func (s *store) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	time.Sleep(s.takes)
	if s.broken.Load() {
		return slices.Repeat([]error{engine.ConfigurationError("broken", errors.New("no partition"))}, max(1, len(changes)))
	}
	if s.locked.Load() && len(changes) > 0 && strings.HasPrefix(changes[0].User, "locked") {
		return []error{engine.ErrOwn}
	}
	s.mu.Lock()
	for i := range changes {
		for _, d := range changes[i].Decided {
			if d.Record.Turn == 1 {
				s.lags = append(s.lags, time.Duration(engine.Now()-d.Event.Timestamp-60_000)*time.Millisecond)
			}
		}
	}
	s.mu.Unlock()
	return s.Ledger.Commit(ctx, changes, marks)
}

func (s *store) decided() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lags)
}

// postpone stores deferrals of as many users that are due in a minute.
func (s *store) postpone(t *testing.T, users int, prefix string) {
	t.Helper()
	at := engine.Now()
	var changes []notify.Change
	for i := range users {
		user := fmt.Sprint(prefix, i)
		d := ledgertest.Decide(ledgertest.Event(user, notify.Alert, at), 1, 0, notify.Later, at)
		changes = append(changes, notify.Change{User: user, State: &notify.State{DecidedAt: at}, Decided: []notify.Decided{d}})
	}
	must.OK(t, errors.Join(s.Ledger.Commit(t.Context(), changes, nil)...))
}

// live starts a notifier on the bubble's clock.
func live(t *testing.T, l notify.Ledger, out notify.Dispatcher, change func(*notifier.Config), leases notify.Leases) *notifier.Notifier {
	t.Helper()
	document, _ := rule.Read(rule.Default())
	config := notifier.DefaultConfig()
	change(&config)
	n, err := notifier.New(config, processor.Ports{
		Ledger: l, Dispatcher: out,
		Sets: sets{rule.Compile(document, notify.Local{Zone: quiet.UTC, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60}})},
	})
	must.OK(t, err)
	n.Leases = leases
	must.OK(t, n.Start(t.Context()))
	return n
}

func usual(*notifier.Config) {}

// The poller sleeps until a deferral is due, and decides it then.
//
// Promise(ledger/deferrals): Each of a million deferrals is decided at its time: the poller sleeps
// until the next one is due, and reads an index.
// Figure: 200 a second, 2 workers on a busy machine: lag p99 1.3 s
func TestDeferralsAreDecidedAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Ledger: memory.New()}
		n := live(t, s, &receiver{}, usual, nil)
		time.Sleep(100*time.Second + 300*time.Millisecond)
		s.postpone(t, 3, "a")
		time.Sleep(time.Minute - time.Millisecond)
		if got := s.decided(); got != 0 {
			t.Errorf("%d decided a millisecond before their time", got)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := s.decided(); got != 3 {
			t.Errorf("%d of 3 decided at their time", got)
		}
		if asked := s.nextDue.Load(); asked > 200 || s.claims.Load() > 2 {
			t.Errorf("%d looks and %d claims in 160 s", asked, s.claims.Load())
		}
		stop(t, n)
	})
}

// Many that are due at once take as long as their commits, side by side: no claim waits
// for the end of the decisions before it.
//
// Promise(ledger/claims)
func TestClaimsGoOnBesideDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Ledger: memory.New(), takes: 50 * time.Millisecond}
		const users, claim = 4000, 200
		n := live(t, s, &receiver{}, func(c *notifier.Config) {
			c.Claim, c.Shard.Shards, c.Shard.Flushes = claim, 2, 4
		}, nil)
		s.postpone(t, users, "a")
		most := 0
		for began := time.Now(); s.decided() < users; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > 2*time.Minute {
				t.Fatalf("%d of %d decided", s.decided(), users)
			}
			most = max(most, n.Router.Stats().HeldItems)
		}
		slowest := slices.Max(s.lags)
		t.Logf("the last one was decided %v after its time", slowest)
		// A commit of at least half a claim follows another at once.
		if slowest > users/(claim/2)*s.takes {
			t.Errorf("the last one was decided %v after its time", slowest)
		}
		// A flush holds what it has settled until it returns.
		if most > 2*claim {
			t.Errorf("%d were held, more than two claims may lease", most)
		}
		stop(t, n)
	})
}

// Deferrals that cannot be decided are claimed once a poll, and a pause ends all calls.
//
// Promise(ledger/failing-deferrals): Deferrals that cannot be decided are tried once a second; in a
// pause no call is made.
func TestFailingDeferralsDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Ledger: memory.New()}
		s.broken.Store(true)
		n := live(t, s, &receiver{}, usual, nil)
		s.postpone(t, 10, "a")
		time.Sleep(60*time.Second + 30*time.Second)
		if got := s.claims.Load(); got < 10 || got > 40 {
			t.Errorf("%d claims in 30 s", got)
		}
		n.Pause()
		time.Sleep(time.Second)
		before := s.claims.Load() + s.nextDue.Load()
		time.Sleep(time.Minute)
		if got := s.claims.Load() + s.nextDue.Load(); got != before {
			t.Errorf("%d calls in a pause", got-before)
		}
		s.broken.Store(false)
		n.Resume()
		time.Sleep(61 * time.Second) // a lease may be left
		if got := s.decided(); got != 10 {
			t.Errorf("%d of 10 decided after the pause", got)
		}
		stop(t, n)
	})
}

// Deferrals of users that are locked come again when their lease ends: until then they
// leave room for the others.
//
// Promise(ledger/locked-user)
func TestDeferralsOfLockedUsersKeepNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Ledger: memory.New()}
		s.locked.Store(true)
		n := live(t, s, &receiver{}, func(c *notifier.Config) { c.Claim, c.Shard.FlushKeys = 4, 1 }, nil)
		s.postpone(t, 10, "locked")
		time.Sleep(time.Second)
		s.postpone(t, 3, "free")
		time.Sleep(90 * time.Second)
		if got := s.decided(); got != 3 {
			t.Errorf("%d of 3 decided beside 10 that are locked", got)
		}
		s.locked.Store(false)
		time.Sleep(61 * time.Second)
		if got := s.decided(); got != 13 {
			t.Errorf("%d of 13 decided once nothing is locked", got)
		}
		stop(t, n)
	})
}

// counter refuses everything and counts.
type counter struct{ sends atomic.Int64 }

func (c *counter) Send(_ context.Context, all []notify.Dispatch) []error {
	c.sends.Add(int64(len(all)))
	return slices.Repeat([]error{errors.New("it is down")}, len(all))
}

// Of several workers one sweeps; another one takes over when it has ended.
//
// Promise(notify/one-sweeps): Of several workers on a ledger one sweeps, and another takes over within
// its lease.
func TestOneWorkerSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New()
		at := engine.Now()
		e := ledgertest.Event("a", notify.Alert, at)
		d := ledgertest.Decide(e, 1, 0, notify.Now, at)
		must.OK(t, shared.Commit(t.Context(), []notify.Change{{User: "a", State: &notify.State{DecidedAt: at}, Decided: []notify.Decided{d}}}, nil)[0])
		out := &counter{}
		var workers []*notifier.Notifier
		for range 4 {
			workers = append(workers, live(t, shared, out, func(*notifier.Config) {}, shared))
			time.Sleep(7 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		if got := out.sends.Load(); got < 9 || got > 11 {
			t.Errorf("%d tries in 10 minutes by 4 workers, want one a minute", got)
		}
		stop(t, workers[0])
		before := out.sends.Load()
		time.Sleep(10 * time.Minute)
		if got := out.sends.Load() - before; got < 7 || got > 10 {
			t.Errorf("%d tries in 10 minutes after the sweeping worker has ended", got)
		}
		for _, n := range workers[1:] {
			stop(t, n)
		}
	})
}
