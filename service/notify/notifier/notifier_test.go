package notifier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/service/notify/notifier"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
)

func TestMain(m *testing.M) { process.Main(m) }

type sets struct{ *notify.Set }

func (s sets) Current() *notify.Set { return s.Set }

// receiver keeps what was handed over, unless it is down.
type receiver struct {
	mu   sync.Mutex
	got  []notify.Dispatch
	down atomic.Bool
}

func (r *receiver) Send(_ context.Context, all []notify.Dispatch) []error {
	errs := make([]error, len(all))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		if r.down.Load() {
			errs[i] = errors.New("it is down")
		} else {
			r.got = append(r.got, all[i])
		}
	}
	return errs
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// start starts a notifier with quick intervals whose clock is at.
func start(t *testing.T, store notify.Ledger, out *receiver, at *atomic.Int64) *notifier.Notifier {
	t.Helper()
	config := notifier.DefaultConfig()
	config.Poll, config.Mark, config.Sweep, config.SweepAge = time.Millisecond, time.Millisecond, 5*time.Millisecond, 0
	n := newWith(t, config, store, out, at)
	must.OK(t, n.Start(t.Context()))
	return n
}

func newWith(t *testing.T, config notifier.Config, store notify.Ledger, out *receiver, at *atomic.Int64) *notifier.Notifier {
	t.Helper()
	document, faults := rule.Read(rule.Default())
	if document == nil {
		t.Fatal(faults.Err())
	}
	zone, err := quiet.LoadZone("UTC")
	must.OK(t, err)
	n, err := notifier.New(config, processor.Ports{
		Ledger: store, Dispatcher: out, Clock: func() engine.Millis { return engine.Millis(at.Load()) },
		Sets: sets{rule.Compile(document, notify.Local{Zone: zone, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60}})},
	})
	must.OK(t, err)
	return n
}

func stop(t *testing.T, n *notifier.Notifier) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}

const noon = 1_774_872_000_000 // 2026-03-30T12:00:00Z, a Monday

func clockAt(millis int64) *atomic.Int64 {
	var c atomic.Int64
	c.Store(millis)
	return &c
}

func event(t *testing.T, user, kind, title string) *notify.Notification {
	t.Helper()
	e, err := notify.Parse(fmt.Appendf(nil, `{"event_id":%q,"user_id":%q,"event_type":%q,"title":%q,"source":"test","channel":["push"],"timestamp":"2026-03-30T12:00:00Z"}`,
		uuid.New(), user, kind, title), noon)
	must.OK(t, err)
	return e
}

// turns returns the outcomes of an event's turns.
func turns(t *testing.T, store *memory.Ledger, id uuid.UUID) (outcomes []notify.Outcome) {
	t.Helper()
	for d, err := range store.Records(context.Background(), ledger.Filter{Event: id, Oldest: true}) {
		must.OK(t, err)
		outcomes = append(outcomes, d.Record.Outcome)
	}
	return outcomes
}

// What is deferred is decided when it is due, and what was decided in a process that
// ended meanwhile is decided by the next.
//
// Promise(notify/leases): When a worker that claimed deferrals is killed or slow, its lease ends,
// another claims them, and the turn is decided once.
func TestDeferralsAreDecidedWhenTheyAreDue(t *testing.T) {
	store, out, clock := memory.New(), &receiver{}, clockAt(noon)
	must.OK(t, store.SetPreferences(t.Context(), "1", notify.Preferences{Quiet: quiet.Hours{{From: 11 * 60, To: 13 * 60}}}))
	n := start(t, store, out, clock)
	e := event(t, "1", "ALERT", "The stove is on")
	verdicts, err := n.Decide(t.Context(), []*notify.Notification{e})
	must.OK(t, err)
	r := verdicts[0].Records[0]
	if r.Outcome != notify.Later || r.DeferUntil < noon+3_600_000 {
		t.Fatalf("%+v", r)
	}
	stop(t, n)

	clock.Store(int64(r.DeferUntil) - 1)
	n = start(t, store, out, clock)
	defer stop(t, n)
	if _, err := n.Decide(t.Context(), []*notify.Notification{event(t, "2", "SECURITY", "x")}); err != nil {
		t.Fatal(err)
	}
	if got := turns(t, store, e.ID); len(got) != 1 {
		t.Fatalf("a millisecond before it is due: %v", got)
	}
	clock.Store(int64(r.DeferUntil))
	must.Hold(t, "the deferral is decided", func() bool { return len(turns(t, store, e.ID)) == 2 })
	must.Hold(t, "it is handed over and its row is gone", func() bool {
		next, err := store.NextDue(t.Context())
		return err == nil && next == 0 && out.count() == 2
	})
}

// A receiver that is down costs no decision and no hand-over.
//
// Promise(notify/killed-before-dispatch)
func TestTheSweepHandsOverWhatWasLeft(t *testing.T) {
	store, out := memory.New(), &receiver{}
	out.down.Store(true)
	n := start(t, store, out, clockAt(noon))
	var events []*notify.Notification
	for i := range 50 {
		events = append(events, event(t, fmt.Sprint(i), "SECURITY", "x"))
	}
	verdicts, err := n.Decide(t.Context(), events)
	if err != nil || slices.ContainsFunc(verdicts, func(v processor.Verdict) bool { return len(v.Records) != 1 || v.Err == nil }) {
		t.Fatalf("%v, %v", verdicts, err)
	}
	stop(t, n)
	out.down.Store(false)
	n = start(t, store, out, clockAt(noon)) // the sweep of the start
	if got := out.count(); got != len(events) {
		t.Errorf("%d handed over at the start", got)
	}
	stop(t, n)
}

// Many callers get their own verdicts, and each user's events one at a time.
func TestConcurrentCallers(t *testing.T) {
	store, out := memory.New(), &receiver{}
	n := start(t, store, out, clockAt(noon))
	defer stop(t, n)
	var callers sync.WaitGroup
	for c := range 8 {
		callers.Go(func() {
			for i := range 20 {
				e := event(t, fmt.Sprint(i%3), "SECURITY", fmt.Sprint(c, i))
				verdicts, err := n.Decide(t.Context(), []*notify.Notification{e})
				if err != nil || len(verdicts[0].Records) != 1 || verdicts[0].Records[0].EventID != e.ID {
					t.Errorf("%v, %v", verdicts, err)
				}
			}
		})
	}
	callers.Wait()
	if got := n.Processor.Stats().Decisions.Of(notify.Now); got != 160 || out.count() != 160 {
		t.Errorf("%d decided NOW, %d handed over", got, out.count())
	}
}

func TestConfigIsChecked(t *testing.T) {
	config := notifier.DefaultConfig()
	config.Shard.Batching, config.Lease, config.Claim, config.Processor.Failures = true, 0, 0, 0
	if err := config.Validate(); err == nil || len(err.(interface{ Unwrap() []error }).Unwrap()) != 4 {
		t.Errorf("%v", err)
	}
}

// A paused notifier claims no deferral and hands nothing over again; it decides what
// is submitted.
//
// Promise(notify-worker/unfit)
func TestAPauseRestsPollerAndSweep(t *testing.T) {
	store, out, at := memory.New(), &receiver{}, clockAt(noon)
	n := start(t, store, out, at)
	defer stop(t, n)
	n.Pause()
	out.down.Store(true)
	e := event(t, "1", "SECURITY", "Your code is 1234")
	if _, err := n.Decide(t.Context(), []*notify.Notification{e}); err != nil {
		t.Fatal(err)
	}
	out.down.Store(false)
	at.Add(1)
	time.Sleep(50 * time.Millisecond) // ten sweeps
	if out.count() != 0 {
		t.Error("handed over in a pause")
	}
	n.Resume()
	must.Hold(t, "it is handed over", func() bool { return out.count() == 1 })
}

// A process that shares its ledger leaves what was decided a moment ago to the process
// that decided it.
//
// Promise(notify-worker/young-decisions): A worker that starts leaves decisions that another has just
// made to it.
// Promise(notify/one-sweeps)
func TestASharedLedgersYoungDecisionsAreNotSweptAtTheStart(t *testing.T) {
	for _, shared := range []bool{false, true} {
		store, out, at := memory.New(), &receiver{}, clockAt(noon)
		out.down.Store(true)
		first := start(t, store, out, at)
		first.Pause()
		if _, err := first.Decide(t.Context(), []*notify.Notification{event(t, "1", "SECURITY", "Your code is 1234")}); err != nil {
			t.Fatal(err)
		}
		stop(t, first)
		out.down.Store(false)
		config := notifier.DefaultConfig()
		at.Add(config.SweepAge.Milliseconds() / 2)
		second := newWith(t, config, store, out, at)
		if shared {
			second.Leases = store
		}
		must.OK(t, second.Start(t.Context()))
		if swept := out.count() == 1; swept == shared {
			t.Errorf("shared %t: swept %t", shared, swept)
		}
		stop(t, second)
	}
}
