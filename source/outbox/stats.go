package outbox

import (
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"
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

	Delay   Histogram // from stored to confirmed
	Publish Histogram // of one call of the publisher
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
	s.Delay.write(w, "keyfold_relay_delay_seconds")
	s.Publish.write(w, "keyfold_relay_publish_duration_seconds")
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

// bounds are the buckets' upper ends.
var bounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute,
}

// Histogram counts durations by bucket.
type Histogram struct {
	buckets [len(bounds) + 1]atomic.Int64 // the last: above all bounds
	sum     atomic.Int64                  // nanoseconds
}

func (h *Histogram) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// write sums the buckets up as it goes, so that they agree with the count even
// while others observe.
func (h *Histogram) write(w io.Writer, name string) {
	var total int64
	for i := range h.buckets {
		total += h.buckets[i].Load()
		end := "+Inf"
		if i < len(bounds) {
			end = strconv.FormatFloat(bounds[i].Seconds(), 'g', -1, 64)
		}
		fmt.Fprintf(w, "%s_bucket{le=%q} %d\n", name, end, total)
	}
	fmt.Fprintf(w, "%s_sum %g\n%s_count %d\n", name, time.Duration(h.sum.Load()).Seconds(), name, total)
}
