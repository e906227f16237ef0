package partitioner

import (
	"errors"
	"fmt"
	"sync/atomic"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/source/rabbit/consume"
)

// Stats counts since the start. Its fields are read with Load.
type Stats struct {
	Partitioned atomic.Int64 // copies confirmed
	Unroutable  atomic.Int64 // copies no queue wanted
	Refused     atomic.Int64 // copies the broker refused
	Unknown     atomic.Int64 // copies without an answer: they are published again
	Away        atomic.Int64 // copies not sent because the broker was away
	Batches     atomic.Int64
}

func (s *Stats) count(err error) {
	switch {
	case err == nil:
		s.Partitioned.Add(1)
	case errors.Is(err, engine.ErrUnroutable):
		s.Unroutable.Add(1)
	case errors.Is(err, engine.ErrRefused):
		s.Refused.Add(1)
	case errors.Is(err, engine.ErrUnknown):
		s.Unknown.Add(1)
	default:
		s.Away.Add(1)
	}
}

// Unpublished returns how many publications failed.
func (s *Stats) Unpublished() int64 {
	return s.Unroutable.Load() + s.Refused.Load() + s.Unknown.Load() + s.Away.Load()
}

// Register adds the stage's series to set.
func (p *Partitioner) Register(set *metric.Set) {
	s := &p.Stats
	set.Counter("keyfold_partitioned_events_total", "Events confirmed in their partition; one that was published twice counts twice.", s.Partitioned.Load)
	const failures = "Publications to a partition that failed and are tried again, by cause."
	set.Counter(`keyfold_partitioned_failures_total{cause="unroutable"}`, failures, s.Unroutable.Load)
	set.Counter(`keyfold_partitioned_failures_total{cause="refused"}`, failures, s.Refused.Load)
	set.Counter(`keyfold_partitioned_failures_total{cause="unknown"}`, failures, s.Unknown.Load)
	set.Counter(`keyfold_partitioned_failures_total{cause="away"}`, failures, s.Away.Load)
	set.Counter("keyfold_partitioned_batches_total", "Batches of events that were published together.", s.Batches.Load)
	set.Counter("keyfold_partitioned_old_events_total", "Events received from the single queue used before partitions.", p.old.Stats.Delivered.Load)
	set.Counter("keyfold_partitioned_malformed_total", "Messages of both queues that became dead letters.", func() int64 {
		return p.Consumed(func(s *consume.Stats) *atomic.Int64 { return &s.DeadLetters })
	})
	// The single queue may be missing for good, where a consumer that is not connected
	// is no fault.
	p.common.RegisterQueue(set)
	p.publisher.Register(set)
}

// Ready returns nil while events are consumed and published, and otherwise why not. The
// broker does not tell a consumer whether it is the active one: a stage that waits for
// another to end is ready.
func (p *Partitioner) Ready() error {
	if err := p.outage.fault(); err != nil {
		return err
	}
	return p.common.Ready()
}

// Notes returns what an operator should know although events are consumed.
func (p *Partitioner) Notes() (notes []string) {
	if err := p.outage.fault(); err != nil {
		notes = append(notes, "partition: "+err.Error())
	}
	if err := p.old.Ready(); err != nil && p.draining.Load() && !errors.Is(err, consume.ErrNoQueue) {
		notes = append(notes, "queue "+p.config.Names.Queue+": "+err.Error())
	}
	for _, c := range p.consumers() {
		if n, cause := c.Unstored(); n > 0 {
			notes = append(notes, fmt.Sprintf("dead letters: %d messages wait, unacknowledged, for the broker to take their letters: %v", n, cause))
		}
	}
	return notes
}

// Consumed returns the sum of a counter over the consumers.
func (p *Partitioner) Consumed(of func(*consume.Stats) *atomic.Int64) (n int64) {
	for _, c := range p.consumers() {
		n += of(&c.Stats).Load()
	}
	return n
}
