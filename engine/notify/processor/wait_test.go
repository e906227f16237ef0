package processor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
)

// waiting returns a processor of the fixture that waits for its ledger as told.
func (f *fixture) waiting(t *testing.T, failures int, wait func(context.Context) (bool, error), heard func(error)) {
	t.Helper()
	config := processor.DefaultConfig()
	config.Pause, config.MaxPause, config.Failures = 1, 1, failures
	p, err := processor.New(config, processor.Ports{
		Ledger: f.faults, Dispatcher: f.out, Sets: sets{shippedSet(t)}, Clock: func() engine.Millis { return f.now },
		WaitForLedger: wait, OnConfigError: heard,
	})
	must.OK(t, err)
	f.Processor = p
}

// An event that expires while its flush waits for the ledger is decided as expired.
//
// Promise(notify/expiry): An event that expires before its decision is NEVER with EXPIRED; one that
// expires between decision and dispatch is not sent.
func TestWhatExpiresWhileTheLedgerIsAwayIsNever(t *testing.T) {
	f := newFixture(t, false)
	waits := 0
	f.waiting(t, 2, func(context.Context) (bool, error) {
		if waits++; waits != 2 {
			return false, nil
		}
		f.now += 600_000
		f.faults.commits = nil
		return true, nil
	}, nil)
	f.faults.commits = func(notify.Change) error { return engine.ErrUnknown }
	e := post(t, "1", "SECURITY", "Your code is 1234")
	e.ExpiresAt = f.now + 300_000
	v := f.decide(t.Context(), processor.Delivery{Event: e})[0]
	if v.Outcome != processor.Decided || v.Records[0].Outcome != notify.Never || v.Records[0].Reasons[0] != notify.ReasonExpired || v.Records[0].DecidedAt != noon+600_000 {
		t.Errorf("verdict %+v", v)
	}
	if len(f.out.got) != 0 {
		t.Errorf("handed over %+v", f.out.got)
	}
}

// A wait that ends without the ledger uses no attempt, also while a lost answer is to
// be read back.
//
// Promise(notify-worker/postgres-killed)
func TestAWaitThatEndsLeavesEventsUnsettled(t *testing.T) {
	for _, through := range []int{0, 1} {
		f := newFixture(t, false)
		f.waiting(t, 5, func(context.Context) (bool, error) {
			if through--; through >= 0 {
				return false, nil
			}
			return true, errFlaky
		}, nil)
		f.faults.commits = func(notify.Change) error { return engine.ErrUnknown }
		v := f.decide(t.Context(), processor.Delivery{Event: post(t, "1", "SECURITY", "x")})[0]
		if v.Outcome != processor.Unsettled || !errors.Is(v.Err, errFlaky) {
			t.Errorf("verdict %+v", v)
		}
	}
}

// A ledger that comes and goes fails a flush in the end.
//
// Promise(notify/ledger-away, notify-worker/postgres-killed)
func TestALedgerThatRelapsesIsNotWaitedForWithoutEnd(t *testing.T) {
	f := newFixture(t, false)
	f.waiting(t, 3, func(context.Context) (bool, error) { return true, nil }, nil)
	f.faults.commits = func(notify.Change) error { return errors.Join(engine.ErrUnknown, engine.ErrAway) }
	v := f.decide(t.Context(), processor.Delivery{Event: post(t, "1", "SECURITY", "x")})[0]
	if v.Outcome != processor.Park {
		t.Errorf("verdict %+v", v)
	}
}

// A configuration fault is no event's: it is told, and no attempt is used.
//
// Promise(notify-worker/no-dispatch-queue)
func TestConfigurationFaultsAreTold(t *testing.T) {
	fault := engine.ConfigurationError("missing", errors.New("run setup"))
	for name, fails := range map[string]func(*fixture){
		"commit":    func(f *fixture) { f.faults.commits = func(notify.Change) error { return fault } },
		"hand over": func(f *fixture) { f.out.failing = func(*notify.Dispatch) error { return fault } },
	} {
		f, heard := newFixture(t, false), 0
		f.waiting(t, 3, nil, func(err error) {
			if heard++; !errors.Is(err, fault) {
				t.Errorf("%s: heard of %v", name, err)
			}
		})
		fails(f)
		v := f.decide(t.Context(), processor.Delivery{Event: post(t, "1", "SECURITY", "x")})[0]
		if v.Outcome != processor.Unsettled || heard == 0 || v.Stored() != (name == "hand over") {
			t.Errorf("%s: heard %d times, verdict %+v", name, heard, v)
		}
	}
}

// A user whose row another session keeps locked is parked after a bounded number of
// tries, with pauses between them, and no attempt is used. Others are decided.
//
// Promise(ledger/locked-user)
func TestALockedUserIsParked(t *testing.T) {
	f := newFixture(t, false)
	const failures = 4
	f.waiting(t, failures, nil, nil)
	locked, tries := true, 0
	f.faults.commits = func(c notify.Change) error {
		if c.User != "locked" || !locked {
			return nil
		}
		tries++
		return fmt.Errorf("%w: a lock", engine.ErrOwn)
	}
	event := func() processor.Delivery {
		return processor.Delivery{Event: post(t, "locked", "SECURITY", "x"), Redelivered: true}
	}
	verdicts := f.decide(t.Context(), event(), processor.Delivery{Event: post(t, "free", "SECURITY", "x")})
	if v := verdicts[0]; v.Outcome != processor.Park || v.Stored() || tries != failures {
		t.Errorf("verdict %+v after %d tries", v, tries)
	}
	if v := verdicts[1]; v.Outcome != processor.Decided {
		t.Errorf("the other user: %+v", v)
	}
	if n := f.Stats().Unknowns.Load(); n != 0 {
		t.Errorf("%d answers are counted as unknown: nothing was written", n)
	}
	locked = false
	if v := f.decide(t.Context(), event())[0]; v.Outcome != processor.Decided {
		t.Errorf("once it is free: %+v", v)
	}
}

// endsInFind is a ledger during whose Find the process is told to stop.
type endsInFind struct {
	*faulty
	stop context.CancelFunc
}

func (l endsInFind) Find(ctx context.Context, _ []uuid.UUID) ([]notify.Known, error) {
	l.stop()
	return nil, ctx.Err()
}

// A stop while a lost answer is read back uses no attempt.
func TestAStopInFindLeavesEventsUnsettled(t *testing.T) {
	f := newFixture(t, false)
	ctx, stop := context.WithCancel(t.Context())
	f.faults.commits = func(notify.Change) error { return engine.ErrUnknown }
	config := processor.DefaultConfig()
	config.Failures = 1
	p, err := processor.New(config, processor.Ports{
		Ledger: endsInFind{f.faults, stop}, Dispatcher: f.out, Sets: sets{shippedSet(t)}, Clock: func() engine.Millis { return f.now },
	})
	must.OK(t, err)
	f.Processor = p
	v := f.decide(ctx, processor.Delivery{Event: post(t, "1", "SECURITY", "x")})[0]
	if v.Outcome != processor.Unsettled || !errors.Is(v.Err, context.Canceled) {
		t.Errorf("verdict %+v", v)
	}
}

// A user whose stored rows cannot be read is parked, and others are decided. Where no
// user of several can be read, the fault is the settings', such as an earlier version.
//
// Promise(ledger/damaged-user)
func TestAnUnreadableUserKeepsNoOther(t *testing.T) {
	f, heard := newFixture(t, false), 0
	f.waiting(t, 3, nil, func(error) { heard++ })
	decide := func(users ...string) (outcomes []processor.Outcome) {
		var all []processor.Delivery
		for _, user := range users {
			all = append(all, processor.Delivery{Event: post(t, user, "SECURITY", "x"), Redelivered: true})
		}
		for _, v := range f.decide(t.Context(), all...) {
			outcomes = append(outcomes, v.Outcome)
			if v.Outcome == processor.Park && (!errors.Is(v.Err, errFlaky) || !errors.Is(v.Err, engine.ErrOwn)) {
				t.Errorf("parked for %v", v.Err)
			}
		}
		return outcomes
	}
	f.faults.damaged = []string{"bad", "worse"}
	expect := func(got []processor.Outcome, want ...processor.Outcome) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("outcomes %v, want %v", got, want)
		}
	}
	expect(decide("bad", "fine", "worse"), processor.Park, processor.Decided, processor.Park)
	expect(decide("bad"), processor.Park)
	if heard != 0 {
		t.Errorf("a fault of the settings was told %d times", heard)
	}
	expect(decide("bad", "worse"), processor.Unsettled, processor.Unsettled)
	if heard == 0 {
		t.Error("no fault of the settings was told")
	}
	f.faults.damaged = nil
	expect(decide("bad", "worse"), processor.Decided, processor.Decided)
}
