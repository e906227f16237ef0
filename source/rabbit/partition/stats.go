package partition

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"keyfold/engine/metric"
	"keyfold/source/rabbit"
)

// Stats is of a consumer of partitions.
type Stats struct {
	Events  [rabbit.MaxPartitions]atomic.Int64 // received, by partition
	Known   [rabbit.MaxPartitions]atomic.Bool  // subscribed to at least once
	Mine    [rabbit.MaxPartitions]atomic.Bool  // gauge: this worker's
	Owned   atomic.Int64                       // gauge: how many are
	Workers atomic.Int64                       // gauge: workers that share them
	Moves   atomic.Int64                       // partitions taken over or given up
}

// DelayStats counts attempts since the start, except for the gauge. Its fields
// are read with Load.
type DelayStats struct {
	Waiting   atomic.Int64 // gauge: not yet confirmed in a delay queue
	Replaced  atomic.Int64 // confirmed there
	InProcess atomic.Int64 // no delay queue took them: they waited here
	Failed    atomic.Int64 // groups to be published again
}

// Own notes which partitions are this worker's.
func (s *Stats) Own(mine ...int) {
	for i := range s.Mine {
		s.Mine[i].Store(slices.Contains(mine, i))
	}
	s.Owned.Store(int64(len(mine)))
}

// Register adds the series of partitions. One of a partition begins when it is known.
func (s *Stats) Register(set *metric.Set) {
	for i := range s.Events {
		set.Counter(fmt.Sprintf("keyfold_partition_events_total{partition=\"%02d\"}", i), "Messages received, by partition.", func() int64 {
			if !s.Known[i].Load() {
				return -1 // not told
			}
			return s.Events[i].Load()
		})
		set.Gauge(fmt.Sprintf("keyfold_partition_owned{partition=\"%02d\"}", i), "1 while a partition is this worker's.", func() float64 {
			switch {
			case !s.Known[i].Load():
				return math.NaN()
			case s.Mine[i].Load():
				return 1
			}
			return 0
		})
	}
	set.Gauge("keyfold_partitions_owned", "Partitions that are this worker's.", metric.Int(s.Owned.Load))
	set.Gauge("keyfold_workers_seen", "Workers that share the partitions, as this one counts them.", metric.Int(s.Workers.Load))
	set.Counter("keyfold_partition_moves_total", "Partitions that this worker took over or gave up.", s.Moves.Load)
}
