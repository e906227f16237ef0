package notifier

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
)

// overdue is how long after a decision its delivery should be reported.
const overdue = time.Hour

// Reports counts the delivery reports that a ledger takes, and the decisions that have
// none for long.
type Reports struct {
	ledger     notify.Reports
	applied    [len(reported)]atomic.Int64 // aligned with reported
	refused    atomic.Int64
	failed     atomic.Int64
	unreported atomic.Int64
}

// reported are the statuses that senders report.
var reported = [...]notify.Status{notify.Delivered, notify.DeliveryFailed}

// CountReports returns a counter in front of a ledger.
func CountReports(ledger notify.Reports) *Reports { return &Reports{ledger: ledger} }

// Apply implements [notify.Reports].
func (r *Reports) Apply(ctx context.Context, reports []notify.Report) []error {
	answers := r.ledger.Apply(ctx, reports)
	for i, err := range answers {
		switch {
		case err == nil:
			for j, s := range reported {
				if reports[i].Status == s {
					r.applied[j].Add(1)
				}
			}
		case engine.KindOf(err) == engine.Permanent:
			r.refused.Add(1)
		default:
			r.failed.Add(1)
		}
	}
	return answers
}

// Unreported tells of how many NOWs decided before an instant the delivery is not
// reported.
type Unreported interface {
	Unreported(ctx context.Context, before engine.Millis) (int64, error)
}

// Watch counts every minute the decisions that are overdue, until ctx ends.
func (r *Reports) Watch(ctx context.Context, ledger Unreported, now func() engine.Millis, log *slog.Logger) {
	for {
		n, err := ledger.Unreported(ctx, now()-engine.Millis(overdue.Milliseconds()))
		switch {
		case err == nil:
			r.unreported.Store(n)
		case ctx.Err() == nil:
			log.Debug("decisions without a delivery report are not counted", slog.Any("error", err))
		}
		if !backoff.Sleep(ctx, time.Minute) {
			return
		}
	}
}

// Register adds the series to set.
func (r *Reports) Register(set *metric.Set) {
	for i, s := range reported {
		set.Counter(fmt.Sprintf("keyfold_notify_deliveries_total{status=%q}", s), "Delivery reports that were applied, by status.", r.applied[i].Load)
	}
	set.Counter("keyfold_notify_reports_refused_total", "Delivery reports that name no decision, or one that was not to send.", r.refused.Load)
	set.Counter("keyfold_notify_report_failures_total", "Delivery reports that the ledger did not take for now.", r.failed.Load)
	set.Gauge("keyfold_notify_unreported", "Decisions to send, made over an hour ago, of which no sender has reported the delivery; counted up to 10,000.",
		func() float64 { return float64(r.unreported.Load()) })
}
