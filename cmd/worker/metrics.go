package worker

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/taste"
	"keyfold/shard"
	"keyfold/source/rabbit"
)

var errStarting = errors.New("starting: waiting for the store")

// Ready returns nil while events are consumed, and otherwise why not.
func (w *Worker) Ready() error {
	p := w.running()
	if p == nil {
		return errStarting
	}
	if err := w.fault.err(); err != nil {
		return err
	}
	if s := p.breaker.State(); s.Open {
		return fmt.Errorf("store: away since %s: %w", s.Since.UTC().Format(time.RFC3339), s.Cause)
	}
	return p.consumer.Ready()
}

// Notes returns what an operator should know although events are consumed.
func (w *Worker) Notes() []string {
	p := w.running()
	if p == nil {
		return nil
	}
	if n, cause := p.consumer.Unstored(); n > 0 {
		return []string{fmt.Sprintf("dead letters: %d events wait, unacknowledged, for the broker to take their letters: %v", n, cause)}
	}
	return nil
}

// Stats are a worker's counters. Those behind pointers go on counting.
type Stats struct {
	Taste           *taste.Stats
	Windows         shard.Stats
	Consumer        *rabbit.ConsumerStats
	Unstored        int // given-up events that the dead-letter queue has not taken
	Retries         *rabbit.DelayStats
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
		Taste:       p.pipeline.Taste.Stats(),
		Windows:     p.pipeline.Router.Stats(),
		Consumer:    &p.consumer.Stats,
		Retries:     &p.retries.Stats,
		Publisher:   &p.publisher.Stats,
		Store:       p.breaker.State(),
		ConfigFault: w.fault.newest(),
		Panic:       p.pipeline.Router.Err(),
	}
	s.Unstored, _ = p.consumer.Unstored()
	if p.prefetcher != nil {
		s.SearchesWaiting = p.prefetcher.Waiting()
	}
	return s
}

// WriteMetrics writes the counters in Prometheus's text format, none while the
// worker is starting.
func (w *Worker) WriteMetrics(to io.Writer) {
	if s := w.Stats(); s != nil {
		s.write(to, w.config.PhraseTimeout > 0)
	}
}

func (s *Stats) write(to io.Writer, searchesWait bool) {
	count := func(name string, n int64) { metrics.WriteCounterUint64(to, name, uint64(max(0, n))) }
	gauge := func(name string, n int64) { metrics.WriteGaugeUint64(to, name, uint64(max(0, n))) }

	t := s.Taste
	for o := engine.Folded; o <= engine.Unsettled; o++ {
		count(fmt.Sprintf(`keyfold_events_total{outcome=%q}`, o), t.Of(o))
	}
	count("keyfold_batches_total", t.Batches.Load())
	count("keyfold_profile_writes_total", t.Writes.Load())
	count("keyfold_profile_reads_total", t.Reads.Load())
	count("keyfold_profile_cache_hits_total", t.Hits.Load())
	count("keyfold_conflicts_total", t.Conflicts.Load())
	count("keyfold_unknown_outcomes_total", t.Unknowns.Load())
	count("keyfold_store_failures_total", t.Failures.Load())
	count("keyfold_overdue_events_total", t.Overdue.Load())
	count("keyfold_stale_profiles_total", t.Stale.Load())

	for _, trigger := range shard.Triggers() {
		count(fmt.Sprintf(`keyfold_windows_closed_total{trigger=%q}`, trigger), int64(s.Windows.Closed[trigger]))
	}
	count("keyfold_flushes_total", int64(s.Windows.Flushes))
	gauge("keyfold_flushes_running", int64(s.Windows.Running))
	gauge("keyfold_open_windows", int64(s.Windows.OpenWindows))
	gauge("keyfold_held_events", int64(s.Windows.HeldItems))
	gauge("keyfold_held_bytes", s.Windows.HeldBytes)

	c := s.Consumer
	count("keyfold_rabbitmq_connects_total", c.Connects.Load())
	gauge("keyfold_rabbitmq_connected", c.Connected.Load())
	count("keyfold_rabbitmq_delivered_total", c.Delivered.Load())
	count("keyfold_rabbitmq_redelivered_total", c.Redelivered.Load())
	count("keyfold_rabbitmq_acked_total", c.Acked.Load())
	gauge("keyfold_rabbitmq_unacked", c.Unacked.Load())
	count("keyfold_rabbitmq_overdue_sessions_total", c.Overdue.Load())
	count("keyfold_rabbitmq_stale_settlements_total", c.Stale.Load())
	count("keyfold_malformed_total", c.Malformed.Load())
	count("keyfold_dead_letters_total", c.DeadLetters.Load())
	gauge("keyfold_dead_letters_unstored", int64(s.Unstored))
	count("keyfold_retries_total", c.Retried.Load())
	count("keyfold_parked_total", c.Parked.Load())
	gauge("keyfold_retries_unconfirmed", s.Retries.Waiting.Load())
	count("keyfold_retries_delayed_total", s.Retries.Replaced.Load())
	count("keyfold_retries_in_process_total", s.Retries.InProcess.Load())
	count("keyfold_retries_publish_failures_total", s.Retries.Failed.Load())
	gauge("keyfold_rabbitmq_publisher_blocked", s.Publisher.Blocked.Load())
	breaker.WriteState(to, "store", s.Store)
	count(`keyfold_breaker_opened_total{dependency="store"}`, s.Store.Opened)
	count(`keyfold_breaker_probes_total{dependency="store"}`, s.Store.Probes)
	if searchesWait {
		gauge("keyfold_searches_waiting", int64(s.SearchesWaiting))
	}
}
