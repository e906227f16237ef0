package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledgertest"
)

// TestContention has many writers commit for overlapping users, new ones among them, with
// claims, marks and erasures beside: no update is lost, and no call waits in a circle.
//
// Promise(notify/two-workers): Of two workers that decide for one user one is written; the other
// decides again on what it finds.
// Figure: 0 lost updates
// Promise(ledger/contention): Under many workers each decision of a user counts once and its `seq` has
// no gap; locks are taken in one order.
// Figure: 50 writers over 40 users: 0 lost updates, 0 deadlocks (`KEYFOLD_SOAK=1`)
func TestContention(t *testing.T) {
	if long {
		contention(t, openNew(t), 50, 40)
	} else {
		contention(t, openNew(t), 20, 24)
	}
}

func contention(t *testing.T, l *Ledger, writers, users int) {
	const rounds = 2
	var group sync.WaitGroup
	won := make([]atomic.Int64, users)
	for w := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for range rounds {
				if err := contend(l, random, won); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	group.Wait()
	var sum int64
	for user := range users {
		name, n := fmt.Sprint(user), won[user].Load()
		standing, err := l.Load(ctx, []notify.Ask{{User: name}})
		must.OK(t, err)
		if standing[0].Version != n {
			t.Errorf("user %s has version %d, and %d decisions were acknowledged", name, standing[0].Version, n)
		}
		var seq int64
		for d, err := range l.Records(ctx, ledger.Filter{User: name, Oldest: true}) {
			must.OK(t, err)
			if seq++; d.Record.Seq != seq {
				t.Errorf("user %s: record %d has seq %d", name, seq, d.Record.Seq)
			}
		}
		if seq != n {
			t.Errorf("user %s has %d records of %d", name, seq, n)
		}
		sum += n
	}
	if sum < int64(writers*rounds) {
		t.Errorf("only %d decisions were made: the test tested little", sum)
	}
}

// contend commits one change of each of some users, again where it conflicts, and
// counts the decisions that were written.
func contend(l *Ledger, random *rand.Rand, won []atomic.Int64) error {
	left := random.Perm(len(won))[:1+random.IntN(len(won)/2)]
	var marked []uuid.UUID
	for try := 0; len(left) > 0; try++ {
		asks := make([]notify.Ask, len(left))
		for i, user := range left {
			asks[i].User = fmt.Sprint(user)
		}
		standings, err := l.Load(ctx, asks)
		if err != nil {
			return err
		}
		changes := make([]notify.Change, len(left))
		for i := range left {
			changes[i] = oneAt(asks[i].User, standings[i].Version, notify.Outcome(1+random.IntN(3)), start+engine.Millis(standings[i].Version))
		}
		var lost []int
		for i, err := range l.Commit(ctx, changes, ledgertest.Dispatched(marked...)) {
			switch {
			case err == nil:
				won[left[i]].Add(1)
				marked = append(marked, changes[i].Decided[0].Record.EventID)
			case errors.Is(err, engine.ErrConflict) && try < 1000:
				lost = append(lost, left[i])
			default:
				return err
			}
		}
		left = lost
		if _, err := l.Claim(ctx, start+100_000, start+200_000, 5); err != nil {
			return err
		}
		if err := l.Release(ctx, marked); err != nil {
			return err
		}
	}
	return nil
}

// TestOneEventOfManyUsers has writers commit the same event ids for users of their
// own, in different orders: one user gets each event, the others are told so.
//
// Promise(ledger/contention)
func TestOneEventOfManyUsers(t *testing.T) {
	const writers, events = 8, 30
	l := openNew(t)
	ids := make([]*notify.Notification, events)
	for i := range ids {
		ids[i] = ledgertest.Event("none", notify.Update, start)
	}
	var group sync.WaitGroup
	var written atomic.Int64
	for w := range writers {
		group.Go(func() {
			var changes []notify.Change
			for i, at := range rand.Perm(events) {
				user := fmt.Sprint(w, " ", i)
				d := ledgertest.Decide(ids[at], 1, 0, notify.Later, start)
				d.Record.UserID = user
				changes = append(changes, notify.Change{User: user, State: &notify.State{DecidedAt: start}, Decided: []notify.Decided{d}})
			}
			for _, err := range l.Commit(ctx, changes, nil) {
				switch {
				case err == nil:
					written.Add(1)
				case !errors.Is(err, notify.ErrAnotherUser) && !errors.Is(err, engine.ErrConflict):
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	group.Wait()
	n := 0
	for _, err := range l.Records(ctx, ledger.Filter{}) {
		must.OK(t, err)
		n++
	}
	if n != events || written.Load() != events {
		t.Errorf("%d records, %d acknowledged, want %d", n, written.Load(), events)
	}
}

// The keys of one answer are read apart: one without a digest follows one of a digest.
func TestKnownOfADigest(t *testing.T) {
	l := openNew(t)
	first := oneAt("a", 0, notify.Now, start)
	first.Decided[0].Record.DigestID = uuid.Max
	first.Decided = append(first.Decided, oneAt("a", 1, notify.Later, start).Decided...)
	must.OK(t, commitOne(l, first))
	var known *notify.KnownError
	if err := commitOne(l, first); !errors.As(err, &known) || len(known.Known) != 2 {
		t.Fatalf("the answer is %v", err)
	}
	for i, k := range known.Known {
		if want := ledger.Key(&first.Decided[i].Record); k != want {
			t.Errorf("key %d is %+v, want %+v", i, k, want)
		}
	}
}
