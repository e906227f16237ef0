package outbox

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"keyfold/engine/histogram"
)

// StoreStats counts since the start. Its fields are read with Load.
type StoreStats struct {
	Requests     atomic.Int64 // answered with a commit
	Stored       atomic.Int64 // new rows
	Repeated     atomic.Int64 // ids stored before
	Transactions atomic.Int64 // tried; several requests may share one
	Failed       atomic.Int64 // transactions that failed
	Split        atomic.Int64 // groups stored one by one after a row that never fits
}

// RelayStats counts since the start, except for the gauges. Its fields are read
// with Load.
type RelayStats struct {
	Sent       atomic.Int64 // rows confirmed
	Unroutable atomic.Int64 // attempts no queue wanted
	Refused    atomic.Int64 // attempts the broker refused
	Unknown    atomic.Int64 // attempts without an answer: their rows are sent again
	Away       atomic.Int64 // rows not sent because the publisher could not
	SetAside   atomic.Int64 // rows given up
	Unmarked   atomic.Int64 // rows confirmed whose mark failed: they are sent again
	Batches    atomic.Int64
	InFlight   atomic.Int64 // gauge: rows being published
	Held       atomic.Int64 // gauge: users held back by a refused row

	delay   *histogram.Histogram // from stored to confirmed
	publish *histogram.Histogram // of one call of the publisher
}

// WritePrometheus writes everything in Prometheus's text format.
func (s *StoreStats) WritePrometheus(w io.Writer) {
	writeCounts(w, []count{
		{"keyfold_outbox_store_requests_total", s.Requests.Load()},
		{`keyfold_outbox_store_rows_total{outcome="stored"}`, s.Stored.Load()},
		{`keyfold_outbox_store_rows_total{outcome="repeated"}`, s.Repeated.Load()},
		{"keyfold_outbox_store_transactions_total", s.Transactions.Load()},
		{"keyfold_outbox_store_transactions_failed_total", s.Failed.Load()},
		{"keyfold_outbox_store_groups_split_total", s.Split.Load()},
	})
}

// WritePrometheus writes everything in Prometheus's text format.
func (s *RelayStats) WritePrometheus(w io.Writer) {
	writeCounts(w, []count{
		{`keyfold_relay_rows_total{outcome="sent"}`, s.Sent.Load()},
		{`keyfold_relay_rows_total{outcome="unroutable"}`, s.Unroutable.Load()},
		{`keyfold_relay_rows_total{outcome="refused"}`, s.Refused.Load()},
		{`keyfold_relay_rows_total{outcome="unknown"}`, s.Unknown.Load()},
		{`keyfold_relay_rows_total{outcome="away"}`, s.Away.Load()},
		{`keyfold_relay_rows_total{outcome="set_aside"}`, s.SetAside.Load()},
		{`keyfold_relay_rows_total{outcome="unmarked"}`, s.Unmarked.Load()},
		{"keyfold_relay_batches_total", s.Batches.Load()},
		{"keyfold_relay_in_flight", s.InFlight.Load()},
		{"keyfold_relay_held_users", s.Held.Load()},
	})
	s.delay.WritePrometheus(w)
	s.publish.WritePrometheus(w)
}

type count struct {
	name string
	n    int64
}

func writeCounts(w io.Writer, counts []count) {
	for _, c := range counts {
		fmt.Fprintf(w, "%s %d\n", c.name, c.n)
	}
}

func newHistogram(name string) *histogram.Histogram {
	const ms = time.Millisecond
	return histogram.New(name, ms, 5*ms/2, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms, 1000*ms, 2500*ms, 5000*ms,
		10000*ms, 30000*ms, time.Minute, 10*time.Minute)
}
