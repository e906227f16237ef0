package ledger_test

import (
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
	"keyfold/sink/ledgertest"
)

// A state is what its records come to, also where the older ones are no longer stored. A
// state that was changed by hand differs in what was changed.
//
// Promise(ledger/verify): `user verify` names what differs after a partial restore or a change by
// hand, also where retention dropped the older records.
func TestVerify(t *testing.T) {
	const (
		user  = "anna"
		start = engine.Millis(1_780_000_000_000)
		hour  = engine.Millis(3_600_000)
	)
	store := memory.New()
	var state notify.State
	commit := func(version int64, state *notify.State, d notify.Decided) {
		t.Helper()
		c := notify.Change{User: user, Version: version, State: state, Decided: []notify.Decided{d}}
		must.OK(t, store.Commit(t.Context(), []notify.Change{c}, nil)[0])
	}
	version := int64(0)
	decide := func(at engine.Millis, outcome notify.Outcome) notify.Decided {
		d := ledgertest.Decide(ledgertest.Event(user, notify.EventTypes[version%3], at), version+1, 0, outcome, at)
		d.Record.Facts.Horizon = 72 * hour
		return d
	}
	for i := range 200 {
		d := decide(start+engine.Millis(i)*hour, notify.Outcome(1+i%3))
		state.Fold(&d.Record)
		commit(version, &state, d)
		version++
	}
	verify := func(kept engine.Millis) ledger.Verified {
		t.Helper()
		v, err := ledger.Verify(t.Context(), store, user, kept)
		if err != nil || v.Version != version || v.Erased {
			t.Fatalf("%+v, %v", v, err)
		}
		return v
	}
	for name, kept := range map[string]engine.Millis{"all": 0, "a day": start + 175*hour, "none": start + 300*hour} {
		if v := verify(kept); len(v.Differences) > 0 || name == "a day" && v.Records != 25 {
			t.Errorf("%s are kept: %+v", name, v)
		}
	}
	changed := state.Clone()
	changed.Sends = append(changed.Sends, start+198*hour)
	changed.Marks = changed.Marks[1:]
	d := decide(start+200*hour, notify.Never)
	changed.DecidedAt = start + 200*hour
	commit(version, changed, d)
	version++
	if v := verify(0); len(v.Differences) != 2 {
		t.Errorf("changed by hand: %q", v.Differences)
	}
	if v := verify(start + 199*hour); len(v.Differences) > 0 {
		t.Errorf("what was changed is older than the records that are kept: %q", v.Differences)
	}
	if v, err := ledger.Verify(t.Context(), store, "unknown", 0); err != nil || v.Version != 0 || len(v.Differences) > 0 {
		t.Errorf("an unknown user: %+v, %v", v, err)
	}
}
