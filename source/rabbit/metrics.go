package rabbit

import (
	"fmt"

	"keyfold/engine/metric"
)

// Register adds the consumer's series to set.
func (c *Consumer) Register(set *metric.Set) { c.register(labelled{Set: set}) }

// RegisterQueue adds the consumer's series to set, with the queue as their label.
func (c *Consumer) RegisterQueue(set *metric.Set) { c.register(ofQueue(set, c.config.Names)) }

// labelled adds series with one label, or with none.
type labelled struct {
	*metric.Set
	label string
}

func ofQueue(set *metric.Set, n Names) labelled {
	return labelled{set, fmt.Sprintf("{queue=%q}", n.Queue)}
}

func (l labelled) Counter(name, help string, read func() int64) {
	l.Set.Counter(name+l.label, help, read)
}

func (l labelled) Gauge(name, help string, read func() float64) {
	l.Set.Gauge(name+l.label, help, read)
}

func (c *Consumer) register(set labelled) {
	s := &c.Stats
	set.Counter("keyfold_rabbitmq_connects_total", "Sessions opened with the broker.", s.Connects.Load)
	set.Gauge("keyfold_rabbitmq_connected", "1 while a session consumes or is paused.", metric.Int(s.Connected.Load))
	set.Counter("keyfold_rabbitmq_delivered_total", "Messages received.", s.Delivered.Load)
	set.Counter("keyfold_rabbitmq_redelivered_total", "Messages received that the broker had delivered before.", s.Redelivered.Load)
	set.Counter("keyfold_rabbitmq_acked_total", "Messages acknowledged.", s.Acked.Load)
	set.Gauge("keyfold_rabbitmq_unacked", "Messages received in the live session and not acknowledged.", metric.Int(s.Unacked.Load))
	set.Counter("keyfold_rabbitmq_overdue_sessions_total", "Sessions ended because a message was not settled within its lease.", s.Overdue.Load)
	set.Counter("keyfold_rabbitmq_stale_settlements_total", "Verdicts dropped because their session had ended.", s.Stale.Load)
	set.Counter("keyfold_malformed_total", "Messages that the parser refused.", s.Malformed.Load)
	set.Counter("keyfold_dead_letters_total", "Dead letters confirmed by the broker.", s.DeadLetters.Load)
	set.Gauge("keyfold_dead_letters_unstored", "Events given up whose dead letter the broker has not taken.", func() float64 {
		events, _ := c.Unstored()
		return float64(events)
	})
	set.Counter("keyfold_retries_total", "Verdicts that led to another attempt.", s.Retried.Load)
	set.Counter("keyfold_parked_total", "Events put into a delay queue with their attempts unchanged.", s.Parked.Load)
	if c.config.Partitions != nil {
		s.Partitions.register(set.Set)
	}
}

// register adds the series of partitions. One of a partition begins when it is known.
func (s *PartitionStats) register(set *metric.Set) {
	for i := range s.Events {
		set.Counter(fmt.Sprintf("keyfold_partition_events_total{partition=\"%02d\"}", i), "Messages received, by partition.", func() int64 {
			if !s.Known[i].Load() {
				return -1 // not told
			}
			return s.Events[i].Load()
		})
	}
	set.Gauge("keyfold_partitions_owned", "Partitions that are this worker's.", metric.Int(s.Owned.Load))
	set.Gauge("keyfold_workers_seen", "Workers that share the partitions, as this one counts them.", metric.Int(s.Workers.Load))
	set.Counter("keyfold_partition_moves_total", "Partitions that this worker took over or gave up.", s.Moves.Load)
}

// Register adds the series of the delay queues to set.
func (d *DelayQueues) Register(set *metric.Set) { d.register(labelled{Set: set}) }

// RegisterQueue adds the series to set, with the queue as their label.
func (d *DelayQueues) RegisterQueue(set *metric.Set) { d.register(ofQueue(set, d.names)) }

func (d *DelayQueues) register(set labelled) {
	s := &d.Stats
	set.Gauge("keyfold_retries_unconfirmed", "Events whose copy is not yet confirmed in a delay queue.", metric.Int(s.Waiting.Load))
	set.Counter("keyfold_retries_delayed_total", "Events confirmed in a delay queue.", s.Replaced.Load)
	set.Counter("keyfold_retries_in_process_total", "Events that waited in the worker because no delay queue took them.", s.InProcess.Load)
	set.Counter("keyfold_retries_publish_failures_total", "Groups of copies for a delay queue that had to be published again.", s.Failed.Load)
}

// Register adds the publisher's series to set.
func (p *Publisher) Register(set *metric.Set) { p.register(labelled{Set: set}) }

// RegisterOf adds the series to set, with what is published as their label: a process may
// have several publishers.
func (p *Publisher) RegisterOf(set *metric.Set, published string) {
	p.register(labelled{set, fmt.Sprintf("{publisher=%q}", published)})
}

func (p *Publisher) register(set labelled) {
	set.Gauge("keyfold_rabbitmq_publisher_blocked", "1 while an alarm of the broker stops publishing.", metric.Int(p.Stats.Blocked.Load))
}
