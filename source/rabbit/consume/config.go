package consume

import (
	"errors"
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// MaxPrefetch is the largest prefetch the protocol can carry. The library cuts
// larger numbers to their low 16 bits, so that 65536 would mean no limit.
const MaxPrefetch = 1<<16 - 1

// Config holds a consumer's settings.
type Config struct {
	DSN      string
	Names    rabbit.Names
	Identity rabbit.Identity
	// Describe names an event that its chunk took: in the log, where it is given up,
	// and by the id of a copy whose original has none. nil: [DescribeEvent].
	Describe Describe
	// Partitions has the consumer take events from partition queues; nil: from the one
	// queue.
	Partitions *Partitions
	// QueueType is the type that the queues were set up with: each session
	// begins with a check whether their arguments are those of [topology.Setup]. "" leaves
	// the check out.
	QueueType topology.QueueType
	// Optional says that the queue may be missing: the consumer looks for it from time to
	// time, and [Consumer.Ready] returns [ErrNoQueue] meanwhile.
	Optional bool
	// NoPriorities is that of [topology.Config], for the same check.
	NoPriorities bool
	// Prefetch is how many messages are held unacknowledged at once. It bounds
	// memory too: the library buffers whatever the broker sends.
	Prefetch int
	// MaxBytes bounds what these messages hold: where they are large, fewer than
	// the prefetch are taken. 0: no bound.
	MaxBytes int64
	// Ordered keeps the queue's order: events are received on one channel
	// instead of several side by side. It costs throughput where many messages
	// are held; see channel.go. A history that depends on order needs it.
	Ordered bool
	// MaxRetries is how many attempts follow the first one.
	MaxRetries int
	// RetryDelay is the delay before the first retry; it doubles with each one,
	// up to [engine.MaxRetryDelay].
	RetryDelay time.Duration
	// Lease is how long a delivery may stay unacknowledged: where one does, the
	// session is ended, and the broker delivers it again. 0: for ever.
	Lease  time.Duration
	Timing rabbit.Timing
}

// Partitions says which partition queues a consumer consumes.
type Partitions struct {
	// Only are the indexes of the queues. nil: all that the broker has, which the workers
	// share out; that takes RabbitMQ 4.
	Only []int
}

// Validate reports every fault at once, by the names of the environment
// variables.
func (c Config) Validate() error {
	var faults []error
	if _, _, _, err := rabbit.Account(c.DSN); err != nil {
		faults = append(faults, err)
	}
	if c.Prefetch < 1 || c.Prefetch > MaxPrefetch {
		faults = append(faults, fmt.Errorf("%s is %d: it must be between 1 and %d", "Prefetch", c.Prefetch, MaxPrefetch))
	}
	return errors.Join(append(faults, engine.CheckRetries(c.MaxRetries, c.RetryDelay))...)
}
