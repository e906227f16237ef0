package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// fewestWorkers of partitions are there at any time.
const fewestWorkers = 2

// partitionPlan draws the plan of a run over partitions. At every interval a worker is
// added, killed for good, or killed and started again. The number of partitions changes
// at even distances, half an interval away from the workers, and the stage is killed at
// even distances with jitter. It depends on its arguments only.
func partitionPlan(c partitionSettings) []step {
	r := rand.New(rand.NewPCG(c.Seed, 0x70617274))
	var plan []step
	workers := min(c.Workers, startWorkers)
	for at := c.Every; at < c.Duration; at += c.Every {
		st := step{At: at, Do: killWorker, Which: r.IntN(1 << 16)}
		switch r.IntN(3) {
		case 0:
			if workers < c.Workers {
				workers++
				st.Do = addWorker
			}
		case 1:
			if workers > fewestWorkers {
				workers--
				st.Do = dropWorker
			}
		}
		plan = append(plan, st)
	}
	for i, n := range c.Partitions[1:] {
		at := c.Duration * time.Duration(i+1) / time.Duration(len(c.Partitions))
		plan = append(plan, step{At: at.Truncate(c.Every) + c.Every/2, Do: repartition, Count: n})
	}
	for i := range c.Kills {
		share := (float64(i) + r.Float64()) / float64(c.Kills)
		at := time.Duration(share * float64(c.Duration) * 0.97).Round(time.Millisecond)
		plan = append(plan, step{At: at, Do: killStage, Which: r.IntN(1 << 16)})
	}
	slices.SortStableFunc(plan, func(a, b step) int { return cmp.Compare(a.At, b.At) })
	return plan
}

// startWorkers is how many workers a run starts with.
const startWorkers = 3
