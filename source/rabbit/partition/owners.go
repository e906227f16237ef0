package partition

// owners returns the worker of each of so many partitions, by number. Each worker has
// as many as any other, or one more. One worker more moves only what it takes itself:
// all workers reckon alike from two numbers, and need no word with each other.
//
// The new worker takes from the one that has most, the lower number of two, and the
// last partition of it.
func owners(partitions, workers int) []int {
	all := make([]int, partitions)
	counts := make([]int, max(workers, 1))
	counts[0] = partitions
	for worker := 1; worker < workers; worker++ {
		for range partitions / (worker + 1) {
			from := most(counts[:worker])
			all[lastOf(all, from)] = worker
			counts[from]--
			counts[worker]++
		}
	}
	return all
}

// most returns the index of the first of the highest counts.
func most(counts []int) (at int) {
	for i, n := range counts {
		if n > counts[at] {
			at = i
		}
	}
	return at
}

func lastOf(all []int, worker int) int {
	i := len(all) - 1
	for all[i] != worker {
		i--
	}
	return i
}

// Consumer priorities: an owner's are above 0, and those of all others below.
const ownerPriority = 100

// consumerPriority returns that of a worker's consumer at partition i. Of two workers that both
// own it, for as long as they count differently, the one with the higher number
// consumes: it is the new one.
//
// Standbys are ranked for each partition, starting at a different worker for each, so that a
// failed owner's partitions are spread evenly until the next count.
func consumerPriority(all []int, i, worker, workers int) int {
	owner := all[i]
	switch {
	case worker == owner:
		return ownerPriority + worker
	case worker >= workers || workers == 1:
		return -1 - worker // there is no place for it yet
	}
	before := 0 // partitions of the owner that come first
	for _, o := range all[:i] {
		if o == owner {
			before++
		}
	}
	others := workers - 1
	place := (worker - owner - 1 + workers) % workers
	return -1 - (place-before%others+others)%others
}
