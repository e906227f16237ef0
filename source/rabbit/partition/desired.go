package partition

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/source/rabbit/topology"
)

// Desired is how a worker is to consume a partition.
type Desired struct {
	Owner    bool
	Priority int // of the consumer
	Prefetch int
}

// Satisfies reports whether the running consumer can be kept where other is desired. Between
// two owners the order of their priorities decides nothing for long. One that stands in may
// have a lower prefetch: most consumers do, and a change of all at once keeps the broker busy.
func (d Desired) Satisfies(other Desired) bool {
	if d.Owner != other.Owner {
		return false
	}
	if d.Owner {
		return d.Prefetch == other.Prefetch
	}
	return d.Prefetch <= other.Prefetch && d.Priority == other.Priority
}

// InForce returns how many messages the broker may deliver: none while another worker owns
// the partition.
func (d Desired) InForce() int {
	if d.Owner {
		return d.Prefetch
	}
	return 0
}

// Arguments returns those of the consumer at the broker.
func (d Desired) Arguments() amqp.Table {
	return amqp.Table{"x-priority": int32(d.Priority)}
}

// Allot returns how a worker with a number is to consume each of the layout's queues, in the
// order of their indexes. capacity is the worker's prefetch. The retired queues are shared out
// on their own: only they bring nothing new.
func Allot(l topology.Layout, number, workers, capacity int) []Desired {
	inUse, retired := owners(l.Partitions, workers), owners(len(l.Retired), workers)
	share := max(1, capacity/max(1, shareOf(len(inUse), workers)+shareOf(len(retired), workers)))
	standby := max(1, capacity/max(1, len(inUse)+len(retired))) // it may have to stand in for all
	all := make([]Desired, 0, len(inUse)+len(retired))
	for _, of := range [][]int{inUse, retired} {
		for i, owner := range of {
			d := Desired{Owner: owner == number, Priority: consumerPriority(of, i, number, workers), Prefetch: share}
			if !d.Owner {
				d.Prefetch = standby
			}
			all = append(all, d)
		}
	}
	return all
}

// shareOf returns how many of n a worker has at most.
func shareOf(n, workers int) int { return (n + workers - 1) / workers }
