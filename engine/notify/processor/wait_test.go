package processor_test

import (
	"context"
	"errors"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
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
	if err != nil {
		t.Fatal(err)
	}
	f.Processor = p
}

// An event that expires while its flush waits for the ledger is decided as expired.
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
