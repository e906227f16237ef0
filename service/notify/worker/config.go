package worker

import (
	"context"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/internal/settings"
	"keyfold/internal/shutdown"
	"keyfold/service/notify/notifier"
	"keyfold/sink/senders/message"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// Config holds a worker's settings.
type Config struct {
	Notifier notifier.Config
	Breaker  breaker.Config // the ledger's
	Retry    settings.Retry
	Timeout  time.Duration // of the shutdown

	DSN       string // of the broker
	Identity  rabbit.Identity
	QueueType topology.QueueType // that the queues were set up with; "" skips the check

	// Messages of each queue that are held unacknowledged at once.
	UrgentPrefetch, BulkPrefetch, ReportPrefetch int
	MaxBytes                                     int64 // of the messages of one queue
	CacheBytes                                   int64 // of users' states in memory
	// DispatchTimeout bounds how long a flush waits for the broker to confirm its
	// dispatches.
	DispatchTimeout time.Duration
	// About is logged at the start, beside the settings above.
	About []slog.Attr
}

// What is in hand at once, at most. A worker decides about 1,000 events a second, so
// that bulk events and deferrals are less than a second of work: an urgent event
// waits for no more.
const (
	mostUrgent = 256
	mostBulk   = 256
	mostDue    = 384
)

// flushUsers is how many users one flush decides. Larger ones take longer from their
// load to their commit, and two workers on the same users then conflict more often:
// with 100 users and no pause in 33 % of the changes at 100 users, 30 % at 24 and 19 % at
// 10. One worker alone decides 6 % fewer for it (go run ./bench notify pair, throughput).
const flushUsers = 10

// Size returns a worker's configuration for settings. Each of the two queues gets at
// most a quarter of what the router holds, in number and in bytes, and the deferrals a
// quarter of the number: a quarter is left.
func Size(s settings.Config) Config {
	c := Config{
		Notifier: notifier.DefaultConfig(), Breaker: s.Breaker, Retry: s.Retry, Timeout: s.Timeout,
		DispatchTimeout: 10 * time.Second,
	}
	held := &c.Notifier.Shard
	held.Shards, held.Flushes = s.Shard.Shards, s.Shard.Flushes
	held.MaxHeld, held.MaxHeldBytes = s.Shard.MaxHeld, s.Shard.MaxHeldBytes
	held.FlushKeys = flushUsers
	quarter := max(1, held.MaxHeld/4)
	c.UrgentPrefetch, c.BulkPrefetch = min(mostUrgent, quarter), min(mostBulk, quarter)
	c.ReportPrefetch = c.BulkPrefetch
	c.Notifier.Claim = min(mostDue, quarter)
	// An event takes twice its body in the router: see [processor.Delivery.Bytes].
	c.MaxBytes = held.MaxHeldBytes / 8
	c.CacheBytes = s.Memory / 4
	return c
}

// Ports connect a worker to what it uses.
type Ports struct {
	// OpenLedger connects to the ledger and checks that it is set up. Run calls it
	// again, after a pause, until it succeeds or returns a configuration fault.
	OpenLedger func(context.Context) (Ledger, error)
	Sets       notify.Sets // has a set once the ledger is open
	// Follow runs beside the worker until ctx ends, and is over before the ledger is
	// closed; nil: nothing does.
	Follow func(ctx context.Context)
	// Links are those of the messages; nil: they have none.
	Links message.Linker
	// Scores reads the taste terms; nil: no score has one.
	Scores notify.Scores
	// Shadows hears of decisions by a candidate; nil: none are made.
	Shadows notify.Shadows
	// Broker returns how to connect to the broker for a purpose ("consumer",
	// "publisher", "dispatches" or "retries"); nil means the defaults.
	Broker func(purpose string) rabbit.Timing
	Log    *slog.Logger
	// Now is the clock of decisions; nil means the machine's.
	Now func() engine.Millis
	// Clock bounds the shutdown; nil means a new one with the shutdown timeout.
	Clock *shutdown.Clock
}

// Ledger holds the decisions. Run closes the ledger it opened.
type Ledger interface {
	notify.Ledger
	notify.Reports
	notify.Leases
	notifier.Unreported
	notifier.Waiting
	// Check returns a configuration error where the server or the schema cannot be
	// used.
	Check(context.Context) error
	// Probe makes one write that is acknowledged as the writes of decisions are.
	Probe(context.Context) error
	// Clock returns the server's time.
	Clock(context.Context) (engine.Millis, error)
	// Register adds the ledger's series to a set.
	Register(*metric.Set)
	Close() error
}
