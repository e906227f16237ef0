package outbox

import (
	"sync/atomic"
	"time"

	"keyfold/engine/metric"
)

// StoreStats counts since the start. Its fields are read with Load.
type StoreStats struct {
	Requests     atomic.Int64 // answered with a commit
	Stored       atomic.Int64 // new rows
	Repeated     atomic.Int64 // ids stored before
	Transactions atomic.Int64 // tried; several requests may share one
	Failed       atomic.Int64 // transactions that failed
	Split        atomic.Int64 // groups stored one by one after a row that never fits

	transaction *metric.Histogram // of one transaction
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
	Duplicates atomic.Int64 // rows of a shop whose id was known
	Unmarked   atomic.Int64 // rows confirmed whose mark failed: they are sent again
	Batches    atomic.Int64
	InFlight   atomic.Int64 // gauge: rows being published
	Held       atomic.Int64 // gauge: users held back by a refused row

	delay   *metric.Histogram // from stored to confirmed
	publish *metric.Histogram // of one call of the publisher
	fetch   *metric.Histogram // of the reading of one batch's rows
	mark    *metric.Histogram // of the marking of one batch's rows
}

// Register adds the store's series to set.
func (s *StoreStats) Register(set *metric.Set) {
	set.Counter("keyfold_outbox_store_requests_total", "Requests answered with a commit.", s.Requests.Load)
	const rows = "Events of committed requests, by whether their id was stored before."
	set.Counter(`keyfold_outbox_store_rows_total{outcome="stored"}`, rows, s.Stored.Load)
	set.Counter(`keyfold_outbox_store_rows_total{outcome="repeated"}`, rows, s.Repeated.Load)
	set.Counter("keyfold_outbox_store_transactions_total", "Transactions tried; several requests may share one.", s.Transactions.Load)
	set.Counter("keyfold_outbox_store_transactions_failed_total", "Transactions that failed.", s.Failed.Load)
	set.Histogram("keyfold_outbox_store_transaction_seconds", "Transactions of the database that store the events of requests.", s.transaction)
	set.Counter("keyfold_outbox_store_groups_split_total", "Groups of requests stored one by one because the database refused a row.", s.Split.Load)
}

// Register adds the relay's series to set.
func (s *RelayStats) Register(set *metric.Set) {
	const rows = "Attempts to publish a row, by outcome; set_aside are rows given up, unmarked those confirmed whose mark failed, duplicate those of a shop whose id was known."
	set.Counter(`keyfold_relay_rows_total{outcome="sent"}`, rows, s.Sent.Load)
	set.Counter(`keyfold_relay_rows_total{outcome="unroutable"}`, rows, s.Unroutable.Load)
	set.Counter(`keyfold_relay_rows_total{outcome="refused"}`, rows, s.Refused.Load)
	set.Counter(`keyfold_relay_rows_total{outcome="unknown"}`, rows, s.Unknown.Load)
	set.Counter(`keyfold_relay_rows_total{outcome="away"}`, rows, s.Away.Load)
	set.Counter(`keyfold_relay_rows_total{outcome="set_aside"}`, rows, s.SetAside.Load)
	set.Counter(`keyfold_relay_rows_total{outcome="duplicate"}`, rows, s.Duplicates.Load)
	set.Counter(`keyfold_relay_rows_total{outcome="unmarked"}`, rows, s.Unmarked.Load)
	set.Counter("events_published_total", "Events whose publication the broker has confirmed.", s.Sent.Load)
	set.Counter("keyfold_relay_batches_total", "Batches of rows.", s.Batches.Load)
	set.Gauge("keyfold_relay_in_flight", "Rows being published.", metric.Int(s.InFlight.Load))
	set.Gauge("keyfold_relay_held_users", "Users whose rows wait because the broker refused one.", metric.Int(s.Held.Load))
	const calls = "Calls of the database for one batch of rows."
	set.Histogram(`keyfold_relay_database_seconds{call="fetch"}`, calls, s.fetch)
	set.Histogram(`keyfold_relay_database_seconds{call="mark"}`, calls, s.mark)
	set.Histogram("keyfold_relay_delay_seconds", "From the time a row was stored to the broker's confirm.", s.delay)
	set.Histogram("keyfold_relay_publish_duration_seconds", "Duration of one call of the publisher.", s.publish)
}

func newHistogram() *metric.Histogram {
	const ms = time.Millisecond
	return metric.NewHistogram(ms, 5*ms/2, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms, 1000*ms, 2500*ms, 5000*ms,
		10000*ms, 30000*ms, time.Minute, 10*time.Minute)
}
