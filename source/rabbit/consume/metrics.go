package consume

import (
	"fmt"
	"strings"
	"sync/atomic"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/source/rabbit"
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

func ofQueue(set *metric.Set, n rabbit.Names) labelled {
	return labelled{set, fmt.Sprintf("{queue=%q}", n.Queue)}
}

func (l labelled) Counter(name, help string, read func() int64) {
	l.Set.Counter(name+l.label, help, read)
}

func (l labelled) Gauge(name, help string, read func() float64) {
	l.Set.Gauge(name+l.label, help, read)
}

// series returns the name of a series with one more label.
func (l labelled) series(name, label, value string) string {
	common := strings.TrimSuffix(l.label, "}")
	if common == "" {
		common = "{"
	} else {
		common += ","
	}
	return fmt.Sprintf("%s%s%s=%q}", name, common, label, value)
}

func (c *Consumer) register(set labelled) {
	s := &c.Stats
	c.registerAccounting(set)
	set.Counter("keyfold_rabbitmq_connects_total", "Sessions opened with the broker.", s.Connects.Load)
	set.Gauge("keyfold_rabbitmq_connected", "1 while a session consumes or is paused.", metric.Int(s.Connected.Load))
	set.Counter("keyfold_rabbitmq_redelivered_total", "Messages received that the broker had delivered before.", s.Redelivered.Load)
	set.Counter("keyfold_rabbitmq_acked_total", "Messages acknowledged.", s.Acked.Load)
	set.Gauge("keyfold_rabbitmq_unacked", "Messages received in the live session and not acknowledged.", metric.Int(s.Unacked.Load))
	set.Gauge("keyfold_rabbitmq_prefetch", "Prefetch of the consumers in force, of which messages of earlier consumers are no part; 0 while nothing is consumed.", metric.Int(c.inForce))
	set.Gauge("keyfold_rabbitmq_room", "Messages that the broker may deliver beside those in hand; 0 while nothing is consumed.", func() float64 {
		room, _ := c.Room()
		return float64(room)
	})
	set.Counter("keyfold_rabbitmq_overdue_sessions_total", "Sessions ended because a message was not settled within its lease.", s.Overdue.Load)
	set.Counter("keyfold_rabbitmq_stale_settlements_total", "Verdicts dropped because their session had ended.", s.Stale.Load)
	set.Counter("keyfold_malformed_total", "Messages that the parser refused.", s.Malformed.Load)
	set.Counter("keyfold_dead_letters_total", "Dead letters confirmed by the broker.", s.DeadLetters.Load)
	set.Gauge("keyfold_dead_letters_unstored", "Events given up whose dead letter the broker has not taken.", func() float64 {
		events, _ := c.Unstored()
		return float64(events)
	})
	set.Counter("keyfold_retries_total", "Failed attempts that led to another one.", s.Retried.Load)
	set.Counter("keyfold_retried_events_total", "Events that needed another attempt, each once.", s.RetriedEvents.Load)
	set.Counter("keyfold_parked_total", "Events put into a delay queue with their attempts unchanged.", s.Parked.Load)
	if c.config.Partitions != nil {
		s.Partitions.Register(set.Set)
	}
}

// settledAs are the outcomes by which deliveries are settled, as metrics name them.
var settledAs = map[engine.Outcome]string{
	engine.Folded: "folded", engine.Duplicate: "duplicate", engine.ProductMissing: "product_missing", engine.UserErased: "user_erased",
	engine.Decided: "decided", engine.Retry: "retried", engine.Park: "parked", engine.Dead: "dead",
}

// registerAccounting adds the series of the accounting. One page has them of one reading.
func (c *Consumer) registerAccounting(set labelled) {
	var seen atomic.Pointer[Totals]
	set.OnWrite(func() {
		now := c.Accounting.Read()
		seen.Store(&now)
	})
	set.Counter("keyfold_rabbitmq_delivered_total", "Messages received: as many as were settled (keyfold_events_total), returned and are in hand.",
		func() int64 { return seen.Load().Received })
	for o := engine.Folded; o <= engine.Decided; o++ {
		if name := settledAs[o]; name != "" {
			set.Set.Counter(set.series("keyfold_events_total", "outcome", name), "Messages settled, by outcome; of a retried or parked one a copy waits in a delay queue and is received again.",
				func() int64 { return seen.Load().Settled[o] })
		}
	}
	set.Counter("keyfold_rabbitmq_returned_total", "Messages that the broker took back unsettled, because their channel ended.",
		func() int64 { return seen.Load().Returned })
	set.Gauge("keyfold_rabbitmq_in_hand", "Messages received that are neither settled nor returned.",
		metric.Int(func() int64 { return seen.Load().InHand }))
	set.Counter("messages_processed_total", "Messages done with: without dead letters and those that come again.",
		func() int64 { return seen.Load().Processed() })
	set.Counters("messages_failed_total"+set.label, "error_type", "Messages that became dead letters, by reason.",
		func() map[string]int64 { return seen.Load().Dead })
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
