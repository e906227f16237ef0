package worker

import (
	"errors"
	"fmt"

	"keyfold/engine/breaker"
	"keyfold/engine/cure"
	"keyfold/engine/metric"
	"keyfold/engine/profile/processor"
	"keyfold/shard"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/partition"
	"keyfold/source/stream/reader"
)

var errStarting = errors.New("starting: waiting for the store")

// Ready returns nil while events are consumed, and otherwise why not.
func (w *Worker) Ready() error {
	p := w.running()
	if p == nil {
		return errStarting
	}
	return w.control.Ready(p.breaker.State())
}

// Notes returns what an operator should know although events are consumed.
func (w *Worker) Notes() []string {
	p := w.running()
	if p == nil {
		return nil
	}
	var notes []string
	if err := p.breaker.Failing(); err != nil {
		notes = append(notes, fmt.Sprintf("store: %v", err))
	}
	if n, cause := p.consumer.Unstored(); n > 0 {
		notes = append(notes, fmt.Sprintf("dead letters: %d events wait, unacknowledged, for the broker to take their letters: %v", n, cause))
	}
	// As KeyfoldProductsMissing: more than 1 in 20, where events come at all.
	if events, missing := p.pipeline.Processor.Lacking(); events >= 20 && missing*20 > events {
		notes = append(notes, fmt.Sprintf("products: %d %% of the newest %d events, up to 15 minutes, are of products without a vector, "+
			"and have no effect: import the catalogue (%s)", 100*missing/events, events, cure.Name("products.Import")))
	}
	// A shop's busiest person is far below it.
	if user, n, all := p.pipeline.Processor.Busiest(1000); n*2 > all {
		notes = append(notes, fmt.Sprintf("users: user %d made at least %d %% of the newest %d events, up to 10 minutes: one worker folds them in their order, "+
			"and more workers do not help; see what sends them (%s), stop it or give it more than one id, or have them dropped (%s)",
			user, 100*n/all, all, cure.Name("users.Show"), cure.Name("users.Forget")))
	}
	if s := &p.consumer.Stats.Partitions; s.Workers.Load() > 1 && s.Owned.Load() == 0 {
		notes = append(notes, fmt.Sprintf("partitions: none is this worker's, as there are fewer than the %d workers: it stands by; "+
			"for all to work, set up more partitions (%s)", s.Workers.Load(), cure.Name("rabbit.SetupPartitions")))
	}
	return notes
}

// Stats are a worker's counters. Those behind pointers go on counting.
type Stats struct {
	Processor       *processor.Stats
	Windows         shard.Stats
	Consumer        *consume.Stats
	Unstored        int           // given-up events that the dead-letter queue has not taken
	Streams         *reader.Stats // nil where none are read
	Retries         *partition.DelayStats
	Publisher       *rabbit.PublisherStats // of dead letters
	Store           breaker.State
	SearchesWaiting int
	ConfigFault     error // the last configuration fault, also once it is cured
	Panic           error // of a flush: the windows have stopped for good
}

// Stats returns the counters, nil while the worker is starting.
func (w *Worker) Stats() *Stats {
	p := w.running()
	if p == nil {
		return nil
	}
	s := &Stats{
		Processor:   p.pipeline.Processor.Stats(),
		Windows:     p.pipeline.Router.Stats(),
		Consumer:    &p.consumer.Stats,
		Retries:     &p.retries.Stats,
		Publisher:   &p.publisher.Stats,
		Store:       p.breaker.State(),
		ConfigFault: w.control.LastFault(),
		Panic:       p.pipeline.Router.Err(),
	}
	if p.streams != nil {
		s.Streams = &p.streams.Stats
	}
	s.Unstored, _ = p.consumer.Unstored()
	if p.prefetcher != nil {
		s.SearchesWaiting = p.prefetcher.Waiting()
	}
	return s
}

// Register has the worker's series added to set when the worker has started. It is
// called before Run.
func (w *Worker) Register(set *metric.Set) { w.metrics = set }

// register adds the series of everything that runs.
func (w *Worker) register(set *metric.Set) {
	set.Gauge("worker_instances_active", "1 while this worker consumes: the sum over all instances is the number of workers.", func() float64 {
		if w.consumer.Ready() != nil {
			return 0
		}
		return 1
	})
	w.pipeline.Register(set)
	w.consumer.Register(set)
	w.retries.Register(set)
	if w.streams != nil {
		w.streams.Register(set)
	}
	w.publisher.Register(set)
	w.breaker.Register(set, "store")
	set.Histogram("keyfold_product_read_seconds", "Reads of products that the cache does not hold from the store, of many each.", w.productReads)
	if w.prefetcher != nil {
		set.Gauge("keyfold_searches_waiting", "Searches that wait for the vector of their phrase.",
			func() float64 { return float64(w.prefetcher.Waiting()) })
	}
}
