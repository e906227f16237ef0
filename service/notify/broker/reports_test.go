package broker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

// appliedTo is a ledger that answers reports by their errors' texts.
type appliedTo struct {
	answers map[string]error
	calls   [][]notify.Report
}

func (a *appliedTo) Apply(_ context.Context, reports []notify.Report) []error {
	a.calls = append(a.calls, append([]notify.Report(nil), reports...))
	errs := make([]error, len(reports))
	for i := range reports {
		errs[i] = a.answers[reports[i].Error]
	}
	return errs
}

// verdicts is the settler of one message.
type verdicts []engine.Verdict

func (v *verdicts) Settle(verdict engine.Verdict) { *v = append(*v, verdict) }

const reportedAt = engine.Millis(1_774_872_000_000)

func original(body []byte) *rabbit.Original {
	return &rabbit.Original{Message: rabbit.Message{Body: body}}
}

// add adds reports of failures to a chunk and returns the settlers of their messages.
func add(t *testing.T, c consume.Chunk, failures ...string) (settled []*verdicts) {
	t.Helper()
	for _, why := range failures {
		settled = append(settled, new(verdicts))
		body := fmt.Appendf(nil, `{"decision_id":%q,"status":"DELIVERY_FAILED","at":"2026-03-30T12:00:00Z","error":%q}`, uuid.Max, why)
		err := c.Add(original(body), consume.Arrival{Settler: settled[len(settled)-1]})
		must.OK(t, err)
	}
	return settled
}

// Promise(ledger/bad-reports)
func TestReportsAreAppliedInOneCallAndSettled(t *testing.T) {
	away, flaky := fmt.Errorf("ledger: %w", engine.ErrAway), errors.New("flaky")
	unknown := engine.PermanentError(notify.ReasonUnknownDecision, errors.New("no decision"))
	rights := engine.ConfigurationError("ledger_rights", errors.New("no right"))
	ledger := &appliedTo{answers: map[string]error{"unknown": unknown, "away": away, "flaky": flaky, "rights": rights}}
	var faults []error
	c := Reports(ledger, func() engine.Millis { return reportedAt }, func(err error) { faults = append(faults, err) })()

	settled := add(t, c, "fine", "unknown", "away", "flaky", "rights", "fine")
	if c.Len() != 6 || len(*settled[0]) != 0 {
		t.Fatalf("%d reports are kept, the first has %v", c.Len(), *settled[0])
	}
	if err := c.HandOver(t.Context()); err != nil || c.Len() != 0 {
		t.Fatalf("HandOver: %v, %d are left", err, c.Len())
	}
	for i, want := range []engine.Verdict{
		{Outcome: engine.Decided},
		{Outcome: engine.Dead, Reason: notify.ReasonUnknownDecision},
		{Outcome: engine.Park},
		{Outcome: engine.Retry},
		{Outcome: engine.Unsettled},
		{Outcome: engine.Decided},
	} {
		got := *settled[i]
		if len(got) != 1 || got[0].Outcome != want.Outcome || got[0].Reason != want.Reason || (got[0].Err == nil) != (want.Outcome == engine.Decided) {
			t.Errorf("report %d is settled with %+v, want %+v", i, got, want)
		}
	}
	if !reflect.DeepEqual(faults, []error{rights}) {
		t.Errorf("faults that were told: %v", faults)
	}
	settled = add(t, c, "fine")
	if err := c.HandOver(t.Context()); err != nil || len(*settled[0]) != 1 {
		t.Errorf("the next chunk: %v, %v", err, settled[0])
	}
	if len(ledger.calls) != 2 || len(ledger.calls[0]) != 6 || len(ledger.calls[1]) != 1 || ledger.calls[1][0].At != reportedAt {
		t.Errorf("the ledger's calls: %+v", ledger.calls)
	}
}

// What is not a report is refused for good, with its faults.
func TestWhatIsNoReport(t *testing.T) {
	c := Reports(&appliedTo{}, func() engine.Millis { return reportedAt }, nil)()
	err := c.Add(original([]byte(`{"status":"SENT"}`)), consume.Arrival{})
	if engine.KindOf(err) != engine.Permanent || len(notify.FaultsOf(err)) != 3 || c.Len() != 0 {
		t.Errorf("%d are kept after %v", c.Len(), err)
	}
}

// A stop leaves reports at the broker, and uses no attempt.
func TestReportsOfAStop(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c := Reports(&appliedTo{answers: map[string]error{"": context.Canceled}}, func() engine.Millis { return reportedAt }, nil)()
	settled := add(t, c, "")
	if err := c.HandOver(ended); err != nil || (*settled[0])[0].Outcome != engine.Unsettled {
		t.Errorf("%v, %+v", err, *settled[0])
	}
}
