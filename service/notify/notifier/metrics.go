package notifier

import (
	"time"

	"keyfold/engine/metric"
)

// Register adds the series of deferrals to set; those of decisions are of
// [processor.Stats].
func (n *Notifier) Register(set *metric.Set) {
	set.Histogram("keyfold_notify_deferral_lag_seconds", "Time from when a deferral was due to its decision.", n.Lag)
	set.Gauge("keyfold_notify_deferrals_claimed", "Deferrals that this worker has claimed and not decided.", func() float64 {
		return float64(n.underWay())
	})
}

func newLag() *metric.Histogram {
	const ms = time.Millisecond
	return metric.NewHistogram(10*ms, 50*ms, 100*ms, 250*ms, 500*ms, 1000*ms, 2000*ms, 5000*ms, 15*time.Second, time.Minute, 10*time.Minute)
}
