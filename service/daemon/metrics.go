package daemon

import (
	"fmt"

	"keyfold/engine/metric"
	"keyfold/shard"
)

// RegisterWindows adds the series of a router's windows to set. They stand here
// because shard imports nothing of keyfold.
func RegisterWindows(set *metric.Set, stats func() shard.Stats) {
	count := func(of func(shard.Stats) int64) func() int64 {
		return func() int64 { return of(stats()) }
	}
	gauge := func(of func(shard.Stats) int64) func() float64 { return metric.Int(count(of)) }
	for _, trigger := range shard.Triggers() {
		set.Counter(fmt.Sprintf("keyfold_windows_closed_total{trigger=%q}", trigger), "Windows closed, by cause.",
			count(func(s shard.Stats) int64 { return int64(s.Closed[trigger]) }))
	}
	set.Counter("keyfold_flushes_total", "Flushes of closed windows that have ended.", count(func(s shard.Stats) int64 { return int64(s.Flushes) }))
	set.Gauge("keyfold_flushes_running", "Flushes under way.", gauge(func(s shard.Stats) int64 { return int64(s.Running) }))
	set.Gauge("keyfold_open_windows", "Windows that collect events, each of one user.", gauge(func(s shard.Stats) int64 { return int64(s.OpenWindows) }))
	set.Gauge("keyfold_held_events", "Events in windows and flushes.", gauge(func(s shard.Stats) int64 { return int64(s.HeldItems) }))
	set.Gauge("keyfold_held_bytes", "Memory of the events in windows and flushes.", gauge(func(s shard.Stats) int64 { return s.HeldBytes }))
}
