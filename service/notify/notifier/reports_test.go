package notifier_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/service/notify/notifier"
)

// reportLedger answers by the text of a report, and counts by the hour.
type reportLedger struct{ asked []engine.Millis }

func (l *reportLedger) Apply(_ context.Context, reports []notify.Report) (errs []error) {
	for i := range reports {
		errs = append(errs, map[string]error{"unknown": reports[i].Unknown(), "away": engine.ErrAway}[reports[i].Error])
	}
	return errs
}

func (l *reportLedger) Unreported(_ context.Context, before engine.Millis) (int64, error) {
	l.asked = append(l.asked, before)
	if len(l.asked) == 3 {
		return 0, errors.New("away")
	}
	return int64(len(l.asked)), nil
}

func TestReportsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &reportLedger{}
		r := notifier.CountReports(ledger)
		answers := r.Apply(t.Context(), []notify.Report{
			{Status: notify.Delivered}, {Status: notify.DeliveryFailed}, {Status: notify.Delivered}, {Error: "unknown"}, {Error: "away"},
		})
		if fmt.Sprint(answers[:3]) != "[<nil> <nil> <nil>]" || engine.ReasonOf(answers[3]) != notify.ReasonUnknownDecision || !errors.Is(answers[4], engine.ErrAway) {
			t.Errorf("the answers are %v", answers)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		start := engine.Now()
		r.Watch(ctx, ledger, engine.Now, slog.New(slog.DiscardHandler))
		hour := engine.Millis(time.Hour.Milliseconds())
		if want := []engine.Millis{start - hour, start - hour + 60_000, start - hour + 120_000}; fmt.Sprint(ledger.asked) != fmt.Sprint(want) {
			t.Errorf("asked for %v, want %v", ledger.asked, want)
		}
		var set metric.Set
		r.Register(&set)
		var b strings.Builder
		set.WritePrometheus(&b)
		for _, want := range []string{
			`keyfold_notify_deliveries_total{status="DELIVERED"} 2`, `keyfold_notify_deliveries_total{status="DELIVERY_FAILED"} 1`,
			"keyfold_notify_reports_refused_total 1", "keyfold_notify_report_failures_total 1", "keyfold_notify_unreported 2",
		} {
			if !strings.Contains(b.String(), want+"\n") {
				t.Errorf("%q is not in the metrics:\n%s", want, b.String())
			}
		}
	})
}
