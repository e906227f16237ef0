package postgres

import "keyfold/engine/metric"

// Register adds the ledger's series to set.
func (l *Ledger) Register(set *metric.Set) {
	set.Gauge("keyfold_notify_partitions_ahead_days",
		"Days after today that have a partition, as of the last check; -1: today has none, and nothing can be decided.",
		metric.Int(l.ahead.Load))
}
