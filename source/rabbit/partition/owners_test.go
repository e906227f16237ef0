package partition

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"keyfold/source/rabbit"
)

func drawLayout(t *rapid.T) (partitions, workers int) {
	return rapid.IntRange(0, rabbit.MaxPartitions).Draw(t, "partitions"), rapid.IntRange(1, 70).Draw(t, "workers")
}

// spread returns the fewest and the most that a worker has.
func spread(all []int, workers int) (fewest, most int) {
	counts := make([]int, workers)
	for _, worker := range all {
		counts[worker]++
	}
	return slices.Min(counts), slices.Max(counts)
}

func TestOwnersAreBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions, workers := drawLayout(t)
		all := owners(partitions, workers)
		fewest, most := spread(all, workers)
		if fewest != partitions/workers || most != (partitions+workers-1)/workers {
			t.Fatalf("%v: %d to %d", all, fewest, most)
		}
	})
}

// A worker more takes what it needs, and nothing moves between the others.
func TestOwnersMoveAsLittleAsPossible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions, workers := drawLayout(t)
		before, after := owners(partitions, workers), owners(partitions, workers+1)
		moved := 0
		for i := range before {
			if before[i] != after[i] {
				moved++
				if after[i] != workers {
					t.Fatalf("partition %d moves from %d to %d", i, before[i], after[i])
				}
			}
		}
		if moved != partitions/(workers+1) {
			t.Fatalf("%d of %d partitions move", moved, partitions)
		}
	})
}

// Three workers over eight partitions, as the numbers are in use: they are not to change
// between versions that run side by side.
func TestOwnersOfEight(t *testing.T) {
	for workers, want := range map[int]string{
		1: "[0 0 0 0 0 0 0 0]", 2: "[0 0 0 0 1 1 1 1]", 3: "[0 0 0 2 1 1 1 2]", 9: "[0 4 3 2 1 5 7 6]",
	} {
		if got := fmt.Sprint(owners(8, workers)); got != want {
			t.Errorf("%d workers: %s, want %s", workers, got, want)
		}
	}
}

// The owner comes first and every worker has a place of its own in each line; where one
// ends, the firsts of its lines are spread evenly over the others.
func TestStandbysShareThePartitionsOfAWorkerThatEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions, workers := drawLayout(t)
		all := owners(partitions, workers)
		ended := rapid.IntRange(0, workers-1).Draw(t, "ended")
		next := make([]int, workers)
		mine := 0
		for i, owner := range all {
			line := map[int]int{}
			first, best := -1, -1<<31
			for worker := range workers {
				p := consumerPriority(all, i, worker, workers)
				if other, taken := line[p]; taken {
					t.Fatalf("partition %d: workers %d and %d have priority %d", i, worker, other, p)
				}
				line[p] = worker
				if (p > 0) != (worker == owner) {
					t.Fatalf("partition %d of worker %d: worker %d has priority %d", i, owner, worker, p)
				}
				if worker != ended && p > best {
					first, best = worker, p
				}
			}
			if owner == ended && workers > 1 {
				mine++
				next[first]++
			}
		}
		if workers > 1 {
			next = slices.Delete(next, ended, ended+1)
			if fewest, most := slices.Min(next), slices.Max(next); fewest != mine/(workers-1) || most-fewest > 1 {
				t.Fatalf("%d partitions of worker %d go to %v", mine, ended, next)
			}
		}
	})
}
