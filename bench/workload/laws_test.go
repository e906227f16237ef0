package workload_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keyfold/bench/workload"
	"keyfold/internal/testserver/must"
	"keyfold/proof/notifyoracle"
	"keyfold/service/notify/notifier"
	"keyfold/service/notify/ruleset"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/notify/rule"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
)

// week is of how many users the texts are: those of all take the race detector seconds to make.
const week = 60

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver keeps what was dispatched.
type receiver struct {
	mu   sync.Mutex
	sent []notifyoracle.Sent
}

func (r *receiver) Send(_ context.Context, all []notify.Dispatch) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		s := notifyoracle.Sent{ID: all[i].ID, At: engine.Now()}
		for _, e := range all[i].Events {
			s.Events = append(s.Events, e.ID)
		}
		r.sent = append(r.sent, s)
	}
	return make([]error, len(all))
}

// trial is a run that ends with its first turns.
type trial struct {
	laws  *workload.Laws
	store *memory.Ledger
	sent  []notifyoracle.Sent
}

func run(t *testing.T, n int) *trial {
	t.Helper()
	return runWith(t, n, func(*memory.Ledger) {})
}

// runWith does something after half of the events.
func runWith(t *testing.T, n int, between func(*memory.Ledger)) *trial {
	t.Helper()
	hours := ruleset.Hours{Zone: "UTC", Morning: "08:00", Digests: "09:00,18:00"}
	local, err := hours.Local()
	must.OK(t, err)
	laws, err := workload.NewLaws(rule.Default(), "", local)
	must.OK(t, err)
	set, err := ruleset.Read("", local)
	must.OK(t, err)
	traffic, err := workload.New(workload.Config{Seed: 7, Users: 60, Skew: 1.3, Week: week})
	must.OK(t, err)
	r := &trial{laws: laws, store: memory.New()}
	out := &receiver{}
	engine, err := notifier.New(notifier.DefaultConfig(), processor.Ports{Ledger: r.store, Dispatcher: out, Sets: ruleset.Fixed{Set: set}})
	must.OK(t, err)
	must.OK(t, engine.Start(t.Context()))
	events := make([]*notify.Notification, n)
	for i := range events {
		if events[i], err = traffic.Next(time.Now()); err != nil {
			t.Fatal(err)
		}
		r.laws.Accepted(events[i])
	}
	if _, err := engine.Decide(t.Context(), events[:n/2]); err != nil {
		t.Fatal(err)
	}
	between(r.store)
	if _, err := engine.Decide(t.Context(), events[n/2:]); err != nil {
		t.Fatal(err)
	}
	must.OK(t, engine.Stop(context.WithoutCancel(t.Context())))
	r.sent = out.sent
	return r
}

func (r *trial) judge(t *testing.T, over bool) *workload.Findings {
	t.Helper()
	f, err := r.laws.Judge(t.Context(), r.store, r.sent, over)
	must.OK(t, err)
	return f
}

// A run keeps the laws, and each way to break one is told.
func TestJudge(t *testing.T) {
	r := run(t, 600)
	f := r.judge(t, false)
	if err := f.Err(); err != nil || f.Events != 600 || f.Outcomes[notify.Now] < 50 || f.Outcomes[notify.Later] == 0 || f.Sent != f.Outcomes[notify.Now] {
		t.Errorf("%v: %+v", err, f)
	}
	if f := r.judge(t, true); f.Of(notifyoracle.LawEnds) == 0 || len(f.Violations) != f.Of(notifyoracle.LawEnds) {
		t.Errorf("deferrals that wait in the end: %v", f.Err())
	}
	whole := r.sent
	r.sent = slices.Clone(whole[1:])
	if f := r.judge(t, true); f.Of(notifyoracle.LawDispatch, workload.LawHandOver) == 0 {
		t.Errorf("a NOW that was not dispatched: %v", f.Err())
	}
	r.sent = append(slices.Clone(whole), notifyoracle.Sent{ID: whole[1].ID, Events: whole[0].Events, At: whole[0].At}, whole[2])
	if f := r.judge(t, false); f.Of(notifyoracle.LawDispatch) != 1 || f.Repeats != 2 {
		t.Errorf("a NOW under two ids: %v, %d repeats", f.Err(), f.Repeats)
	}
	r.sent = whole
	more, err := workload.New(workload.Config{Seed: 8, Users: 60, Week: week})
	must.OK(t, err)
	e, err := more.Next(time.Now())
	must.OK(t, err)
	r.laws.Accepted(e)
	if err := r.judge(t, false).Err(); err == nil || !strings.Contains(err.Error(), "1 events have no decision") {
		t.Errorf("an event that was lost: %v", err)
	}
}

// Two users who were merged were two before, and are one after it.
func TestJudgeOfMergedUsers(t *testing.T) {
	r := runWith(t, 600, func(l *memory.Ledger) {
		must.OK(t, l.SetPreferences(t.Context(), "2", notify.Preferences{Muted: []notify.EventType{notify.Promo}}))
		for alias, into := range map[string]string{"1": "2", "4": "3"} {
			if _, err := ledger.MergeUsers(t.Context(), l, alias, into, engine.Now()); err != nil {
				t.Fatal(err)
			}
		}
	})
	if f := r.judge(t, false); f.Err() != nil || f.Merged != 2 {
		t.Errorf("%d merged: %v", f.Merged, f.Err())
	}
	if _, err := ledger.MergeUsers(t.Context(), r.store, "5", "3", engine.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.laws.Judge(t.Context(), r.store, r.sent, false); err == nil {
		t.Error("which of three users has written what is not known, and not told so")
	}
}

// The same seed makes the same events, but for their times; most are of few users.
func TestTraffic(t *testing.T) {
	c := workload.Config{Seed: 3, Users: 20_000, Week: week, Skew: 1.3, Types: []notify.EventType{notify.Promo, notify.Update}}
	a, err := workload.New(c)
	must.OK(t, err)
	b, err := workload.New(c)
	must.OK(t, err)
	users := map[string]int{}
	now := time.Now()
	for range 5000 {
		one, err := a.Next(now)
		must.OK(t, err)
		two, err := b.Next(now.Add(time.Second))
		must.OK(t, err)
		if one.ID != two.ID || one.UserID != two.UserID || one.Title != two.Title || two.Timestamp-one.Timestamp != 1000 {
			t.Fatalf("%s and %s", one.Body, two.Body)
		}
		if one.Type != notify.Promo && one.Type != notify.Update {
			t.Fatalf("a %v", one.Type)
		}
		users[one.UserID]++
	}
	if users["1"] < 50 || len(users) < 500 {
		t.Errorf("%d events of the first user, %d users", users["1"], len(users))
	}
}
