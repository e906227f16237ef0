package processor_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
)

// A dispatch that has no queue is tried ever less often, and keeps no other one from
// being handed over; once it has a queue, it goes out within ten minutes.
//
// Promise(ledger/resting-dispatches): A dispatch without a queue waits between sweeps, 10 minutes at
// most, and delays no other.
// Promise(notify/refused-dispatch)
func TestRefusedDispatchesRest(t *testing.T) {
	f := newFixture(t, false)
	unroutable := engine.ConfigurationError("unroutable", errors.New("no queue"))
	tries := map[uuid.UUID]int{}
	bound := true
	f.out.failing = func(d *notify.Dispatch) error {
		tries[d.ID]++
		if !bound || d.Records[0].DecidedAt == noon {
			return unroutable
		}
		return nil
	}
	const refused = 250
	var all []processor.Delivery
	for i := range refused {
		all = append(all, processor.Delivery{Event: post(t, fmt.Sprint(i%26), "SECURITY", fmt.Sprint("code ", i))})
	}
	f.decide(t.Context(), all...)
	const minutes = 60
	for i := range minutes {
		f.now += 60_000
		bound = false
		f.decide(t.Context(), processor.Delivery{Event: post(t, "late", "SECURITY", fmt.Sprint("late ", i))})
		bound = true
		if n, _ := f.Sweep(t.Context(), 1<<62); n != 1 {
			t.Fatalf("minute %d: %d handed over, want the new one", i, n)
		}
	}
	for _, d := range all {
		if n := tries[d.Event.ID]; n < 6 || n > 20 {
			t.Errorf("%d tries in %d minutes", n, minutes)
		}
	}
	f.out.failing = nil
	f.now += 600_000
	if n, err := f.Sweep(t.Context(), 1<<62); n != refused || err != nil {
		t.Errorf("%d handed over, %v", n, err)
	}
}

// A sweep that hands nothing over ends at a receiver that is down: a dispatch that has
// expired is no hand-over.
func TestASweepOfAnExpiredOneEndsAtAReceiverThatIsDown(t *testing.T) {
	f := newFixture(t, false)
	tries := 0
	f.out.failing = func(*notify.Dispatch) error { tries++; return errFlaky }
	expired := post(t, "1", "SECURITY", "Your code is 1234")
	expired.ExpiresAt = f.now + 60_000
	f.decide(t.Context(), processor.Delivery{Event: expired}, processor.Delivery{Event: post(t, "2", "SECURITY", "x")})
	f.now += 60_000
	tries = 0
	reads := f.faults.reads
	n, err := f.Sweep(t.Context(), 1<<62)
	if reads = f.faults.reads - reads; n != 0 || !errors.Is(err, errFlaky) || tries != 1 || reads != 1 {
		t.Errorf("%d handed over, %v, %d tries, %d reads of what is undispatched", n, err, tries, reads)
	}
	f.out.failing = nil
	if n, err := f.Sweep(t.Context(), 1<<62); n != 1 || err != nil {
		t.Errorf("then %d handed over, %v", n, err)
	}
}
