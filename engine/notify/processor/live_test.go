package processor_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
)

func now(t *testing.T, v processor.Verdict) notify.Record {
	t.Helper()
	if v.Outcome != processor.Decided || len(v.Records) != 1 || v.Records[0].Outcome != notify.Now {
		t.Fatalf("verdict %+v, want NOW", v)
	}
	return v.Records[0]
}

// Promise(notify/decided-once)
func TestAnEventThatComesTwiceIsDecidedOnce(t *testing.T) {
	f := newFixture(t, false)
	e := post(t, "1", "SECURITY", "Your code is 1234")
	both := f.decide(t.Context(), processor.Delivery{Event: e}, processor.Delivery{Event: post(t, "1", "SECURITY", "Your code is 1234")})
	first := now(t, both[0])
	if both[1].Outcome != processor.Known || both[1].Key.DecisionID != first.DecisionID {
		t.Errorf("the second in one flush: %+v", both[1])
	}
	later := f.decide(t.Context(), processor.Delivery{Event: e})[0]
	if later.Outcome != processor.Known || later.Key.DecisionID != first.DecisionID {
		t.Errorf("the third: %+v", later)
	}
	if sent := f.out.sent()[e.ID]; sent != 1 {
		t.Errorf("handed over %d times", sent)
	}
}

// A process that ends between the commit and the hand-over leaves a NOW behind: the
// next delivery hands over what was recorded.
//
// Promise(notify/killed-before-dispatch): A worker killed between commit and dispatch loses nothing:
// the recorded decision is dispatched by the repeat or the sweep.
func TestARecordedNowIsHandedOverAgain(t *testing.T) {
	f := newFixture(t, false)
	e := post(t, "1", "SECURITY", "Your code is 1234")
	f.out.failing = func(*notify.Dispatch) error { return errFlaky }
	v := f.decide(t.Context(), processor.Delivery{Event: e})[0]
	if v.Outcome != processor.Retry || len(v.Records) != 1 || !errors.Is(v.Err, errFlaky) {
		t.Fatalf("verdict %+v, want a stored record and a failed hand-over", v)
	}
	if v = f.decide(t.Context(), processor.Delivery{Event: e})[0]; v.Outcome != processor.Retry || v.Key.Outcome != notify.Now || v.Key.Dispatched {
		t.Fatalf("verdict %+v while the receiver fails", v)
	}
	f.out.failing = nil
	if v = f.decide(t.Context(), processor.Delivery{Event: e})[0]; v.Outcome != processor.Known || !v.Key.Dispatched {
		t.Fatalf("verdict %+v", v)
	}
	if got := f.out.got; len(got) != 1 || got[0].ID != e.ID || got[0].Records[0].Outcome != notify.Now {
		t.Fatalf("handed over %+v", got)
	}
	// The mark waits to be written: a delivery before that is no reason to send again.
	if v = f.decide(t.Context(), processor.Delivery{Event: e})[0]; !v.Key.Dispatched {
		t.Errorf("verdict %+v, want one that is handed over", v)
	}
	must.OK(t, f.Mark(t.Context()))
	f.decide(t.Context(), processor.Delivery{Event: e})
	if n, err := f.Sweep(t.Context(), 1<<62); n != 0 || err != nil || len(f.out.got) != 1 {
		t.Errorf("swept %d, %v; handed over %d times", n, err, len(f.out.got))
	}
}

// What comes again is handed over however much else waits for its hand-over.
func TestWhatComesAgainIsFoundAmongMany(t *testing.T) {
	f := newFixture(t, false)
	f.out.failing = func(*notify.Dispatch) error { return errFlaky }
	for i := range 1001 {
		f.decide(t.Context(), processor.Delivery{Event: post(t, strconv.Itoa(i), "SECURITY", "Your code is 1234")})
	}
	f.now += 60_000
	last := post(t, "last", "SECURITY", "Your code is 1234")
	f.decide(t.Context(), processor.Delivery{Event: last})
	f.out.failing = nil
	if v := f.decide(t.Context(), processor.Delivery{Event: last})[0]; v.Outcome != processor.Known || f.out.sent()[last.ID] != 1 || len(f.out.got) != 1 {
		t.Errorf("verdict %+v; %d dispatches", v, len(f.out.got))
	}
}

// A commit whose changes are written and whose marks are not leaves the marks to the
// next one: nothing is handed over again.
//
// Promise(ledger/kept-marks): Marks that a commit did not write go with the next one; nothing is
// dispatched again.
func TestMarksThatAreNotWrittenAreKept(t *testing.T) {
	f := newFixture(t, false)
	first, second := post(t, "1", "SECURITY", "Your code is 1234"), post(t, "2", "SECURITY", "Your code is 5678")
	f.decide(t.Context(), processor.Delivery{Event: first})
	f.faults.noMarks = true
	now(t, f.decide(t.Context(), processor.Delivery{Event: second})[0])
	if n := f.Stats().Marked.Load(); n != 0 {
		t.Errorf("%d marks are said to be written", n)
	}
	must.OK(t, f.Mark(t.Context()))
	left, err := f.ledger.Undispatched(t.Context(), 1<<62, 9)
	if err != nil || len(left) != 0 || f.Stats().Marked.Load() != 2 {
		t.Errorf("%d are left, %d marks were written, %v", len(left), f.Stats().Marked.Load(), err)
	}
}

// A key that another call has locked is not marked: one sweep hands its dispatch over
// once, and counts what it handed over alone.
func TestASweepHandsOverOnceWhereNoMarkIsWritten(t *testing.T) {
	f := newFixture(t, false)
	f.out.failing = func(*notify.Dispatch) error { return errFlaky }
	first, second := post(t, "1", "SECURITY", "Your code is 1234"), post(t, "2", "SECURITY", "Your code is 5678")
	second.ExpiresAt = noon + 60_000
	f.decide(t.Context(), processor.Delivery{Event: first}, processor.Delivery{Event: second})
	f.out.failing, f.faults.skipMarks, f.now = nil, true, noon+60_000
	if n, err := f.Sweep(t.Context(), 1<<62); n != 1 || err != nil || len(f.out.got) != 1 {
		t.Errorf("%d handed over, the senders got %d, want 1 beside one that expired; %v", n, len(f.out.got), err)
	}
}

// A mark may be written while a claim has the deferral's row, which is then still
// there: the row comes again, and goes with the mark that it causes.
func TestADeferralThatWasDispatchedIsMarkedAgain(t *testing.T) {
	f := newFixture(t, false)
	e := post(t, "1", "SECURITY", "Your code is 1234")
	now(t, f.decide(t.Context(), processor.Delivery{Event: e})[0])
	must.OK(t, f.Mark(t.Context()))
	due := processor.Delivery{Due: []notify.Due{{Event: e, Turn: notify.Turn{Number: 1}, DueAt: noon}}}
	if v := f.decide(t.Context(), due)[0]; v.Outcome != processor.Known {
		t.Fatalf("verdict %+v", v)
	}
	must.OK(t, f.Mark(t.Context()))
	if n := f.Stats().Marked.Load(); n != 2 || len(f.out.got) != 1 {
		t.Errorf("%d marks were written, want one more; %d handed over", n, len(f.out.got))
	}
}

// A deferral whose NOW was not handed over before its record was deleted cannot be
// handed over: its mark deletes it, so that it does not come again for ever, and is not
// decided anew once the key is deleted too.
//
// Promise(ledger/dropped-records)
func TestADeferralWithoutARecordIsMarked(t *testing.T) {
	f := newFixture(t, false)
	f.out.failing = func(*notify.Dispatch) error { return errFlaky }
	items := make([]notify.Due, 2)
	for i := range items {
		items[i] = notify.Due{Event: post(t, "1", "SECURITY", fmt.Sprint("code ", i)), Turn: notify.Turn{Number: 1}, DueAt: noon}
		f.decide(t.Context(), processor.Delivery{Event: items[i].Event})
	}
	f.out.failing = nil
	f.faults.noRecords = true
	for i := range items {
		v := f.decide(t.Context(), processor.Delivery{Due: items[i : i+1]})[0]
		if v.Outcome != processor.Known || v.Key.Dispatched {
			t.Fatalf("verdict %+v", v)
		}
	}
	must.OK(t, f.Mark(t.Context()))
	if n := f.Stats().Marked.Load(); n != 2 || len(f.out.got) != 0 {
		t.Errorf("%d marks were written, want 2; %d handed over", n, len(f.out.got))
	}
}

// Promise(ledger/expired-report): A notification that expired before its dispatch is DELIVERY_FAILED
// with EXPIRED_BEFORE_DISPATCH, unless a sender reports it.
// Promise(notify/expiry)
func TestWhatExpiredBeforeItsHandOverIsNotSent(t *testing.T) {
	f := newFixture(t, false)
	e := post(t, "1", "SECURITY", "Your code is 1234")
	e.ExpiresAt = noon + 60_000
	f.out.failing = func(*notify.Dispatch) error { return errFlaky }
	f.decide(t.Context(), processor.Delivery{Event: e})
	f.out.failing, f.now = nil, noon+59_999
	if n, err := f.Sweep(t.Context(), 1<<62); n != 1 || err != nil {
		t.Fatalf("a millisecond before it expires: %d, %v", n, err)
	}

	f = newFixture(t, false)
	f.out.failing = func(*notify.Dispatch) error { return errFlaky }
	f.decide(t.Context(), processor.Delivery{Event: e})
	f.out.failing, f.now = nil, noon+60_000
	if _, err := f.Sweep(t.Context(), 1<<62); err != nil {
		t.Fatal(err)
	}
	if len(f.out.got) != 0 || f.Stats().Expired.Load() != 1 {
		t.Errorf("handed over %d, expired %d", len(f.out.got), f.Stats().Expired.Load())
	}
	if left, err := f.ledger.Undispatched(t.Context(), 1<<62, 9); err != nil || len(left) != 0 {
		t.Errorf("the sweep finds it again: %v, %v", left, err)
	}
	want := notify.Delivery{Status: notify.DeliveryFailed, Error: notify.ErrorExpired}
	for d, err := range f.ledger.Records(t.Context(), ledger.Filter{Event: e.ID}) {
		if err != nil || d.Delivery != want {
			t.Errorf("its delivery is %+v, %v, want %+v", d.Delivery, err, want)
		}
	}
}

// One user's events of a flush are decided in the order of their importance: the last
// free slot goes to the more important one.
//
// Promise(notify/urgent)
func TestUrgentEventsAreDecidedFirst(t *testing.T) {
	f := newFixture(t, false)
	var all []processor.Delivery
	for _, title := range strings.Split("one two three four five six seven", " ") {
		all = append(all, processor.Delivery{Event: post(t, "1", "UPDATE", "News about "+title)})
	}
	all = append(all, processor.Delivery{Event: post(t, "1", "ALERT", "The stove is on")})
	verdicts := f.decide(t.Context(), all...)
	if r := now(t, verdicts[len(verdicts)-1]); r.Seq != 1 {
		t.Errorf("the ALERT is decision %d, want 1", r.Seq)
	}
}

func TestAnEventIDOfAnotherUserIsRefused(t *testing.T) {
	f := newFixture(t, false)
	e := post(t, "1", "SECURITY", "Your code is 1234")
	f.decide(t.Context(), processor.Delivery{Event: e})
	stolen := post(t, "2", "SECURITY", "Your code is 1234")
	stolen.ID = e.ID
	other := post(t, "2", "SECURITY", "Your code is 5678")
	verdicts := f.decide(t.Context(), processor.Delivery{Event: stolen}, processor.Delivery{Event: other})
	if verdicts[0].Outcome != processor.Dead || !errors.Is(verdicts[0].Err, notify.ErrAnotherUser) {
		t.Errorf("verdict %+v", verdicts[0])
	}
	now(t, verdicts[1])
}

// What the ledger refuses for good costs one event and not those that came with it.
func TestOneRefusedEventCostsNoOther(t *testing.T) {
	f := newFixture(t, false)
	bad, good := post(t, "1", "SECURITY", "bad"), post(t, "1", "SECURITY", "good")
	f.faults.commits = func(c notify.Change) error {
		for i := range c.Decided {
			if c.Decided[i].Record.EventID == bad.ID {
				return engine.PermanentError("refused", errors.New("not this one"))
			}
		}
		return nil
	}
	verdicts := f.decide(t.Context(), processor.Delivery{Event: bad}, processor.Delivery{Event: good})
	if verdicts[0].Outcome != processor.Dead {
		t.Errorf("verdict %+v", verdicts[0])
	}
	now(t, verdicts[1])
}

// A change whose answer is lost is read back: it is never guessed, nor decided again.
//
// Promise(notify/lost-answer): A commit whose answer was lost is read back by decision_id, never
// guessed, also where it arrives after the look.
func TestALostAnswerIsReadBack(t *testing.T) {
	f := newFixture(t, false)
	lost := true
	f.faults.commits = func(c notify.Change) error {
		if !lost {
			return nil
		}
		lost = false
		if err := f.ledger.Commit(t.Context(), []notify.Change{c}, nil)[0]; err != nil {
			return err
		}
		return engine.ErrUnknown
	}
	e := post(t, "1", "SECURITY", "Your code is 1234")
	v := f.decide(t.Context(), processor.Delivery{Event: e})[0]
	r := now(t, v)
	stored, err := f.ledger.Decision(t.Context(), r.DecisionID)
	if err != nil || stored == nil || f.out.sent()[e.ID] != 1 || f.Stats().Unknowns.Load() == 0 {
		t.Errorf("stored %v, %v; sent %d", stored, err, f.out.sent()[e.ID])
	}
}

// A process that is told to stop leaves what it has not decided to its source.
//
// Promise(notify/stop)
func TestStopLeavesTheRest(t *testing.T) {
	f := newFixture(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	f.faults.commits = func(notify.Change) error { cancel(); return engine.ErrConflict }
	v := f.decide(ctx, processor.Delivery{Event: post(t, "1", "SECURITY", "x")})[0]
	if v.Outcome != processor.Unsettled {
		t.Errorf("verdict %+v", v)
	}
}

// Conflicts and failures without end take the way of a retry.
func TestAnOutageIsARetry(t *testing.T) {
	for name, fault := range map[string]error{"conflict": engine.ErrConflict, "unknown": engine.ErrUnknown, "flaky": errFlaky} {
		f := newFixture(t, false)
		config := processor.DefaultConfig()
		config.Pause, config.MaxPause, config.Conflicts = time.Microsecond, time.Microsecond, 3
		f.Processor = f.again(t, config)
		f.faults.commits = func(notify.Change) error { return fault }
		v := f.decide(t.Context(), processor.Delivery{Event: post(t, "1", "SECURITY", "x")})[0]
		if v.Outcome != processor.Retry || !errors.Is(v.Err, fault) {
			t.Errorf("%s: verdict %+v", name, v)
		}
	}
}

// Many undispatched decisions are swept in several steps, and a receiver that refuses
// some does not keep the others.
func TestSweepGoesPastWhatIsRefused(t *testing.T) {
	f := newFixture(t, false)
	f.out.failing = func(*notify.Dispatch) error { return errFlaky }
	const events = 450
	var all []processor.Delivery
	for i := range events {
		user := string(rune('a' + i%26))
		all = append(all, processor.Delivery{Event: post(t, user, "SECURITY", "code "+time.Duration(i).String())})
	}
	f.decide(t.Context(), all...)
	refused := all[7].Event.ID
	f.out.failing = func(d *notify.Dispatch) error {
		if d.ID == refused {
			return engine.PermanentError("refused", errFlaky)
		}
		return nil
	}
	n, err := f.Sweep(t.Context(), 1<<62)
	if n != events-1 || !errors.Is(err, errFlaky) {
		t.Errorf("swept %d of %d: %v", n, events, err)
	}
}

// Of an event that comes twice in one flush both verdicts tell that its hand-over
// failed.
//
// Promise(notify/killed-before-mark): A worker killed between confirm and mark or acknowledgement
// dispatches again under the same id, which senders drop.
func TestARepeatTellsOfTheHandOver(t *testing.T) {
	f := newFixture(t, false)
	e := post(t, "1", "SECURITY", "Your code is 1234")
	f.out.failing = func(*notify.Dispatch) error { return errFlaky }
	both := f.decide(t.Context(), processor.Delivery{Event: e}, processor.Delivery{Event: post(t, "1", "SECURITY", "Your code is 1234")})
	if v := both[1]; v.Outcome != processor.Retry || v.Key.EventID != e.ID || v.Key.Dispatched {
		t.Errorf("verdict %+v", v)
	}
	e = post(t, "1", "SECURITY", "Your code is 5678")
	f.out.failing = nil
	both = f.decide(t.Context(), processor.Delivery{Event: e}, processor.Delivery{Event: post(t, "1", "SECURITY", "Your code is 5678")})
	if v := both[1]; v.Outcome != processor.Known || !v.Key.Dispatched {
		t.Errorf("verdict %+v", v)
	}
}

// The oldest undispatched decisions are refused for good, more of them than a sweep
// reads at once: the later ones are handed over.
func TestSweepReachesWhatIsBehindRefusals(t *testing.T) {
	f := newFixture(t, false)
	f.out.failing = func(*notify.Dispatch) error { return errFlaky }
	const old, young = 250, 3
	for i := range old + young {
		if i == old {
			f.now++
		}
		f.decide(t.Context(), processor.Delivery{Event: post(t, string(rune('a'+i%26)), "SECURITY", "code "+time.Duration(i).String())})
	}
	f.out.failing = func(d *notify.Dispatch) error {
		if d.Records[0].DecidedAt == noon {
			return engine.PermanentError("refused", errFlaky)
		}
		return nil
	}
	if n, err := f.Sweep(t.Context(), 1<<62); n != young || !errors.Is(err, errFlaky) {
		t.Errorf("swept %d of %d: %v", n, young, err)
	}
}

func TestStatsAreRegistered(t *testing.T) {
	f := newFixture(t, false)
	f.decide(t.Context(), processor.Delivery{Event: post(t, "1", "SECURITY", "x")})
	var set metric.Set
	f.Stats().Register(&set)
	var page strings.Builder
	set.WritePrometheus(&page)
	for _, line := range []string{
		`keyfold_notify_decisions_total{outcome="NOW",reason="rule"} 1`, `keyfold_notify_users_per_commit_bucket{le="1"} 1`,
		`keyfold_notify_event_to_dispatch_seconds_count{class="urgent"} 1`, `keyfold_notify_handled_total{outcome="decided"} 1`,
		"keyfold_notify_dispatched_total 1", "keyfold_notify_commit_seconds_count 1",
	} {
		if !strings.Contains(page.String(), line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
}
