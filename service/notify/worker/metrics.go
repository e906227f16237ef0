package worker

import (
	"errors"
	"fmt"

	"keyfold/engine/breaker"
	"keyfold/engine/cure"
	"keyfold/engine/metric"
	"keyfold/engine/notify/processor"
	"keyfold/service/daemon"
	"keyfold/shard"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/partition"
)

var errStarting = errors.New("starting: waiting for the ledger")

// Ready returns nil while events are consumed, and otherwise why not.
func (w *Worker) Ready() error {
	p := w.running()
	if p == nil {
		return errStarting
	}
	return w.control.Ready(p.breaker.State())
}

// Notes returns what an operator should know although events are consumed.
func (w *Worker) Notes() (notes []string) {
	p := w.running()
	if p == nil {
		return nil
	}
	if err := p.breaker.Failing(); err != nil {
		notes = append(notes, fmt.Sprintf("ledger: %v", err))
	}
	for _, in := range p.inputs {
		if n, cause := in.consumer.Unstored(); n > 0 {
			notes = append(notes, fmt.Sprintf("dead letters: %d messages wait, unacknowledged, for the broker to take their letters: %v", n, cause))
		}
	}
	if records, held := p.notifier.Processor.Stats().Decisions.Capped(); records >= 50 && held*2 > records {
		notes = append(notes, fmt.Sprintf("caps: caps and limits held back %d %% of the newest %d decisions, up to 15 minutes: they are tight for what is sent; "+
			"see which senders send so much, or raise the caps of the rules (%s, then %s)", 100*held/records, records, cure.Name("rules.Show"), cure.Name("rules.Publish")))
	}
	return notes
}

// Stats are a worker's counters. Those behind pointers go on counting.
type Stats struct {
	Processor *processor.Stats
	Windows   shard.Stats
	// Consumers are those of urgent events, of all other events, and of delivery
	// reports.
	Consumers   []*consume.Stats
	Retries     []*partition.DelayStats // aligned with Consumers
	Dispatches  *rabbit.PublisherStats
	Ledger      breaker.State
	ConfigFault error // the last configuration fault, also once it is cured
	Panic       error // of a flush: the worker stops
}

// Stats returns the counters, nil while the worker is starting.
func (w *Worker) Stats() *Stats {
	p := w.running()
	if p == nil {
		return nil
	}
	s := &Stats{
		Processor:   p.notifier.Processor.Stats(),
		Windows:     p.notifier.Router.Stats(),
		Dispatches:  &p.dispatches.Stats,
		Ledger:      p.breaker.State(),
		ConfigFault: w.control.LastFault(),
		Panic:       p.notifier.Router.Err(),
	}
	for _, in := range p.inputs {
		s.Consumers = append(s.Consumers, &in.consumer.Stats)
		s.Retries = append(s.Retries, &in.retries.Stats)
	}
	return s
}

// Register has the worker's series added to set when the worker has started. It is
// called before Run.
func (w *Worker) Register(set *metric.Set) { w.metrics = set }

// register adds the series of everything that runs.
func (w *Worker) register(set *metric.Set) {
	set.Gauge("worker_instances_active", "1 while this worker consumes: the sum over all instances is the number of workers.", func() float64 {
		for _, in := range w.inputs {
			if in.consumer.Ready() != nil {
				return 0
			}
		}
		return 1
	})
	w.notifier.Processor.Stats().Register(set)
	w.notifier.Register(set)
	w.reports.Register(set)
	w.backlog.Register(set)
	w.cache.Register(set)
	daemon.RegisterWindows(set, w.notifier.Router.Stats)
	for _, in := range w.inputs {
		in.consumer.RegisterQueue(set)
		in.retries.RegisterQueue(set)
	}
	w.dispatches.RegisterOf(set, "dispatches")
	w.publisher.RegisterOf(set, "dead_letters")
	w.breaker.Register(set, "ledger")
	w.ledger.Register(set)
}
