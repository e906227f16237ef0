package notifier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/service/notify/notifier"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/cache"
	"keyfold/sink/ledger/postgres"
)

// workers are notifiers side by side over one PostgreSQL, each with its own cache.
type workers struct {
	url   string
	store *postgres.Ledger
	all   []*notifier.Notifier
	out   *receiver
	clock *atomic.Int64
}

func newWorkers(t *testing.T, n int) *workers {
	t.Helper()
	server := pgtest.Shared(t)
	w := &workers{url: server.URL(server.Database(t, "")), out: &receiver{}, clock: clockAt(noon)}
	var err error
	if w.store, err = postgres.Open(w.url, 12); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	must.OK(t, w.store.Setup(t.Context()))
	_, err = w.store.EnsurePartitions(t.Context(), noon, 21)
	must.OK(t, err)
	for range n {
		w.all = append(w.all, start(t, cache.New(w.store, 1<<20), w.out, w.clock))
	}
	t.Cleanup(func() {
		for _, n := range w.all {
			stop(t, n)
		}
	})
	return w
}

// sent counts how often users were sent something.
func (w *workers) sent() map[string]int {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	counts := map[string]int{}
	for i := range w.out.got {
		counts[w.out.got[i].Events[0].UserID]++
	}
	return counts
}

// TestErasureRaces erases users amid all that writes of them: two workers that decide
// their events, deferrals that come due, reports of deliveries, changes of preferences,
// and sweeps. Then events come late, and earlier ones come again. Nothing brings a user
// back, nothing is sent, and no column of any table has the id or a text.
// KEYFOLD_SOAK=1 makes 1,000 races.
//
// Promise(ledger/erasure)
func TestErasureRaces(t *testing.T) {
	waves, atOnce := 3, 20
	if os.Getenv("KEYFOLD_SOAK") != "" {
		waves = 50
	}
	w := newWorkers(t, 2)
	var raced, conflicts races
	for wave := range waves {
		var users sync.WaitGroup
		var names []string
		events := map[string][]*notify.Notification{}
		for i := range atOnce {
			user := fmt.Sprintf("Kassandra-%d-%d", wave, i)
			names = append(names, user)
			for j := range 8 {
				kind := notify.EventTypes[j%len(notify.EventTypes)].String()
				events[user] = append(events[user], event(t, user, kind, fmt.Sprintf("Secret %d of %d %d", j, wave, i)))
			}
		}
		for _, user := range names {
			users.Go(func() { w.race(t, user, events[user], &raced) })
		}
		users.Wait()
		w.quiet(t)
		w.late(t, names, events, &conflicts)
		if wave%10 == 9 || wave == waves-1 {
			if places := pgtest.Search(t, w.url, "Kassandra", "Secret", "words of a sender"); len(places) > 0 {
				t.Fatalf("wave %d: %v", wave, places)
			}
		}
		w.clock.Add(3_600_000)
	}
	t.Logf("%d races: %d decisions before the erasures, %d after them; %d events decided late", waves*atOnce, raced.before.Load(), raced.after.Load(), conflicts.after.Load())
	if raced.before.Load() == 0 || raced.after.Load() == 0 {
		t.Error("all decisions are on one side of the erasures: the test shows nothing")
	}
}

// races counts decisions by the state that they found.
type races struct{ before, after atomic.Int64 }

func (r *races) count(verdicts []processor.Verdict) {
	for i := range verdicts {
		for j := range verdicts[i].Records {
			if verdicts[i].Records[j].Reasons[0] == notify.ReasonUserErased {
				r.after.Add(1)
			} else {
				r.before.Add(1)
			}
		}
	}
}

// race erases a user while others write of the user.
func (w *workers) race(t *testing.T, user string, events []*notify.Notification, counted *races) {
	var group sync.WaitGroup
	var decided atomic.Int64
	for i, n := range w.all {
		group.Go(func() {
			defer decided.Add(8)
			for _, e := range events[i*4 : i*4+4] {
				verdicts, err := n.Decide(t.Context(), []*notify.Notification{e})
				if err != nil {
					t.Errorf("%s: %v", user, err)
					return
				}
				counted.count(verdicts)
				decided.Add(1)
				report := notify.Report{Event: e.ID, Status: notify.DeliveryFailed, Channel: notify.Push, At: engine.Millis(w.clock.Load()), Error: "words of a sender"}
				w.store.Apply(t.Context(), []notify.Report{report}) // it may be of a LATER, or of an erased user
			}
		})
	}
	group.Go(func() {
		for i := range 3 {
			err := w.store.SetPreferences(t.Context(), user, notify.Preferences{Caps: notify.Caps{1 + i}})
			if err != nil && engine.ReasonOf(err) != ledger.ReasonUserErased {
				t.Errorf("%s: %v", user, err)
			}
		}
	})
	group.Go(func() {
		w.clock.Add(120_000) // deferrals come due
		first := rand.Int64N(8)
		must.Hold(t, "so many are decided", func() bool { return decided.Load() >= first })
		if err := w.store.Forget(t.Context(), user, engine.Millis(w.clock.Load())); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	})
	group.Wait()
}

// quiet waits until what was dispatched is marked: nothing earlier is under way.
func (w *workers) quiet(t *testing.T) {
	t.Helper()
	must.Hold(t, "all is marked", func() bool {
		left, err := w.store.Undispatched(t.Context(), 1<<50, 1)
		return err == nil && len(left) == 0
	})
}

// late sends new events and earlier ones to each worker, with all deferrals due.
func (w *workers) late(t *testing.T, users []string, events map[string][]*notify.Notification, counted *races) {
	t.Helper()
	before := w.sent()
	w.clock.Add(25 * 3_600_000 / 10)
	for _, user := range users {
		for _, n := range w.all {
			again := slices.Clone(events[user])
			again = append(again, event(t, user, "SECURITY", "Secret that is late"), event(t, user, "PROMO", "Secret that is late"))
			verdicts, err := n.Decide(t.Context(), again)
			must.OK(t, err)
			for i := range verdicts {
				if v := &verdicts[i]; v.Err != nil && !errors.Is(v.Err, engine.ErrConflict) || v.Outcome != processor.Known && v.Outcome != processor.Decided {
					t.Errorf("%s: %+v", user, v)
				}
			}
			var found races
			found.count(verdicts)
			if counted.after.Add(found.after.Load()); found.before.Load() > 0 {
				t.Errorf("%s: %d late events were decided as if the user were not erased", user, found.before.Load())
			}
		}
		standing, err := w.store.Load(t.Context(), []notify.Ask{{User: user, Deferrals: true}})
		must.OK(t, err)
		if s := &standing[0]; s.State == nil || !s.State.Erased || len(s.State.Sends)+len(s.State.Marks)+len(s.Deferred) > 0 || s.Preferences.Caps != (notify.Caps{}) {
			t.Errorf("%s is %+v", user, s)
		}
		if v, err := ledger.Verify(t.Context(), w.store, user, 0); err != nil || len(v.Differences) > 0 {
			t.Errorf("%s: %+v, %v", user, v, err)
		}
	}
	w.quiet(t)
	for user, n := range w.sent() {
		if n != before[user] && slices.Contains(users, user) {
			t.Errorf("%s was sent %d notifications after the erasure", user, n-before[user])
		}
	}
}

// TestRecordsNameThePreferencesInForce changes a user's preferences while two workers
// decide for the user. A change raises the user's version, so each gap in the records' seq
// is one change, and a record is to name the preferences of the changes before it.
//
// Promise(ledger/preferences): Each record names the preferences in force at its `seq`, also while
// they change.
// Figure: 200 changes
func TestRecordsNameThePreferencesInForce(t *testing.T) {
	w := newWorkers(t, 2)
	const user = "anna"
	changes := 60
	if os.Getenv("KEYFOLD_SOAK") != "" {
		changes = 200
	}
	ended := make(chan struct{})
	var group sync.WaitGroup
	var decided atomic.Int64
	group.Go(func() {
		defer close(ended)
		for i := range changes {
			if err := w.store.SetPreferences(t.Context(), user, notify.Preferences{Caps: notify.Caps{1 + i}}); err != nil {
				t.Errorf("change %d: %v", i, err)
			}
			if before := decided.Load(); i%2 == 0 {
				must.Hold(t, "another decision is made", func() bool { return decided.Load() > before })
			}
		}
	})
	for _, n := range w.all {
		group.Go(func() {
			for i := 0; ; i++ {
				e := event(t, user, "SECURITY", fmt.Sprint("text ", i, uuid.New()))
				if _, err := n.Decide(context.Background(), []*notify.Notification{e}); err != nil {
					t.Error(err)
				}
				decided.Add(1)
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	group.Wait()
	seq, made, records := int64(0), 0, 0
	for d, err := range w.store.Records(t.Context(), ledger.Filter{User: user, Oldest: true}) {
		must.OK(t, err)
		made += int(d.Record.Seq - seq - 1)
		seq, records = d.Record.Seq, records+1
		if got := d.Record.Facts.Preferences.Caps[0]; got != made {
			t.Fatalf("seq %d: the record names the preferences of change %d, in force were those of %d", seq, got, made)
		}
	}
	standing, err := w.store.Load(t.Context(), []notify.Ask{{User: user}})
	must.OK(t, err)
	if made += int(standing[0].Version - seq); made != changes || records < 2 {
		t.Errorf("%d records, %d changes, want %d", records, made, changes)
	}
	t.Logf("%d decisions between %d changes", records, changes)
	if v, err := ledger.Verify(t.Context(), w.store, user, 0); err != nil || len(v.Differences) > 0 || v.Records != records {
		t.Errorf("%+v, %v", v, err)
	}
}
