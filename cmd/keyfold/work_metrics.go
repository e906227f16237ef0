package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/shard"
)

var errStarting = errors.New("starting: waiting for the store")

// ready returns nil while events are consumed, and otherwise why not.
func (w *worker) ready(context.Context) error {
	if w.ways() == nil {
		return errStarting
	}
	if err := w.faults.err(); err != nil {
		return err
	}
	if s := w.breaker.State(); s.Open {
		return fmt.Errorf("store: away since %s: %w", s.Since.UTC().Format(time.RFC3339), s.Cause)
	}
	return w.consumer.Ready()
}

// notes say what is away though events go on.
func (w *worker) notes() []string {
	notes := w.embedding.Away()
	if n, cause := w.consumer.Unstored(); n > 0 {
		notes = append(notes, fmt.Sprintf("dead letters: %d events wait, unacknowledged, for the broker to take their letters: %v", n, cause))
	}
	return notes
}

// writeMetrics writes what the rooms have counted, in Prometheus's text format.
func (w *worker) writeMetrics(to io.Writer) {
	p := w.ways()
	if p == nil {
		return
	}
	count := func(name string, n int64) { metrics.WriteCounterUint64(to, name, uint64(max(0, n))) }
	gauge := func(name string, n int64) { metrics.WriteGaugeUint64(to, name, uint64(max(0, n))) }

	t := p.pipeline.Taste.Stats()
	for o := engine.Folded; o <= engine.Hold; o++ {
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

	s := p.pipeline.Router.Stats()
	for _, trigger := range shard.Triggers() {
		count(fmt.Sprintf(`keyfold_windows_closed_total{trigger=%q}`, trigger), int64(s.Closed[trigger]))
	}
	count("keyfold_flushes_total", int64(s.Flushes))
	gauge("keyfold_flushes_running", int64(s.Running))
	gauge("keyfold_open_windows", int64(s.OpenWindows))
	gauge("keyfold_held_events", int64(s.HeldItems))
	gauge("keyfold_held_bytes", s.HeldBytes)

	c := &p.consumer.Stats
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
	unstored, _ := p.consumer.Unstored()
	gauge("keyfold_dead_letters_unstored", int64(unstored))
	count("keyfold_retries_total", c.Retried.Load())
	count("keyfold_parked_total", c.Parked.Load())
	d := &p.retries.Stats
	gauge("keyfold_retries_unconfirmed", d.Waiting.Load())
	count("keyfold_retries_delayed_total", d.Replaced.Load())
	count("keyfold_retries_in_process_total", d.InProcess.Load())
	count("keyfold_retries_publish_failures_total", d.Failed.Load())
	writeBreaker(to, "store", p.breaker.State())
	if p.anteroom != nil {
		gauge("keyfold_searches_waiting", int64(p.anteroom.Waiting()))
	}
	w.embedding.WriteMetrics(to)
	gauge("keyfold_rabbitmq_publisher_blocked", p.publisher.Stats.Blocked.Load())
}

// writeBreaker writes what a breaker stands at. Why it is open stands in /readyz.
func writeBreaker(to io.Writer, name string, s breaker.State) {
	open, since := uint64(0), 0.0
	if s.Open {
		open, since = 1, time.Since(s.Since).Seconds()
	}
	metrics.WriteGaugeUint64(to, fmt.Sprintf("keyfold_breaker_open{dependency=%q}", name), open)
	metrics.WriteGaugeFloat64(to, fmt.Sprintf("keyfold_breaker_open_seconds{dependency=%q}", name), since)
	metrics.WriteCounterUint64(to, fmt.Sprintf("keyfold_breaker_opened_total{dependency=%q}", name), uint64(s.Opened))
	metrics.WriteCounterUint64(to, fmt.Sprintf("keyfold_breaker_probes_total{dependency=%q}", name), uint64(s.Probes))
}
