package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"
	"golang.org/x/time/rate"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/causes"
	"keyfold/engine/cure"
	"keyfold/engine/metric"
	"keyfold/engine/terse"
)

// RelayConfig holds a relay's settings. The zero value of each is its default.
type RelayConfig struct {
	// Batches is how many batches are on their way at once; default 4.
	Batches int
	// BatchRows bounds a batch; default 512.
	BatchRows int
	// BatchShards is how many shards a batch locks; default 8.
	BatchShards int
	// BatchTime is how long a batch goes on with its users' next rows before it
	// marks what was sent and lets others have its shards; default 1 s.
	BatchTime time.Duration
	// PollMin and PollMax are how long a relay waits that found nothing: the
	// wait doubles from one to the other; default 20 ms and 1 s.
	PollMin, PollMax time.Duration
	// PublishTimeout bounds a call of the publisher; default 10 s.
	PublishTimeout time.Duration
	// Grace is how long a batch may go on after Run was told to end; default
	// 5 s.
	Grace time.Duration
	// HoldMin and HoldMax are how long a user is held back whose row was
	// refused: the wait doubles; default 1 s and 1 min.
	HoldMin, HoldMax time.Duration
	// MaxAttempts is how often a row is refused, while the broker takes
	// others, before it is set aside; default 20, a quarter of an hour.
	MaxAttempts int
	// Rate bounds the rows per second; 0 is no bound.
	Rate float64
	// WholeBatches has all of a batch go out in one call: for a publisher that
	// takes a call's rows in their order, all or none. Of a broker's queue
	// that is not known; see [rounds].
	WholeBatches bool
}

// Validate reports every fault at once.
func (c RelayConfig) Validate() error {
	var faults engine.Faults
	for _, one := range []struct {
		name string
		n    int
	}{{"batches at once", c.Batches}, {"batch rows", c.BatchRows}, {"batch shards", c.BatchShards}, {"attempts", c.MaxAttempts}} {
		faults.If(one.n < 0, "the relay's %s are %d: they must not be negative", one.name, one.n)
	}
	c = c.orDefaults()
	faults.If(c.BatchShards > Shards, "the relay's batch shards are %d: there are %d", c.BatchShards, Shards)
	faults.If(c.PollMin > c.PollMax || c.HoldMin > c.HoldMax, "the relay's shortest poll and hold must not be longer than its longest ones")
	faults.If(!(c.Rate >= 0), "the relay's rate is %v: it must be a number of rows per second, or 0 for no bound", c.Rate)
	if len(faults) == 0 {
		return nil
	}
	return engine.ConfigurationError("relay_configuration", faults.Err())
}

func (c RelayConfig) orDefaults() RelayConfig {
	c.Batches = cmp.Or(c.Batches, 4)
	c.BatchRows = cmp.Or(c.BatchRows, 512)
	c.BatchShards = cmp.Or(c.BatchShards, 8)
	c.BatchTime = cmp.Or(c.BatchTime, time.Second)
	c.PollMin = cmp.Or(c.PollMin, 20*time.Millisecond)
	c.PollMax = cmp.Or(c.PollMax, time.Second)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, 10*time.Second)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	c.HoldMin = cmp.Or(c.HoldMin, time.Second)
	c.HoldMax = cmp.Or(c.HoldMax, time.Minute)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 20)
	return c
}

// Relay publishes what is stored and not sent. Several may run at once, in any
// number of processes.
type Relay struct {
	Stats RelayStats

	db         *Database
	publisher  Publisher
	streams    Streams // in the publisher's place; nil: there are none
	config     RelayConfig
	log        *slog.Logger
	limiter    *rate.Limiter
	wake       chan struct{}
	paused     pausedUsers
	refusals   terse.Repeats
	cursor     atomic.Uint32 // shards take turns
	atLease    atomic.Int64  // goroutines that are locking shards
	turnedAway atomic.Int64  // times that one found the shards it wanted held by others
	lastSent   atomic.Int64  // Unix nanoseconds of the newest confirm
	refused    atomic.Int64  // Unix nanoseconds of the first refusal after it; 0: none
	outage     outage
	looks      looks
	locked     lockedShards
	// lockWait bounds the statements that find what to send: they may wait for a lock.
	lockWait time.Duration

	// leaseLasts is how long a batch may begin to publish from its lease on. It is less than
	// a server keeps the lease of a process that stands still.
	leaseLasts time.Duration
}

// NewRelay returns a relay from a database to a publisher.
func NewRelay(db *Database, publisher Publisher, config RelayConfig, log *slog.Logger) *Relay {
	config = config.orDefaults()
	limit := rate.Inf
	if config.Rate > 0 {
		limit = rate.Limit(config.Rate)
		// A batch must not wait long for the rate while it holds shards.
		config.BatchRows = min(config.BatchRows, max(1, int(config.Rate/4)))
	}
	config.BatchShards = min(config.BatchShards, config.BatchRows)
	r := &Relay{
		db: db, publisher: publisher, config: config, log: log.With("component", "outbox"),
		limiter:    rate.NewLimiter(limit, config.BatchRows),
		wake:       make(chan struct{}, 1),
		paused:     pausedUsers{first: config.HoldMin, longest: config.HoldMax},
		outage:     outage{waits: backoff.Backoff{Min: 50 * time.Millisecond, Max: 5 * time.Second}},
		looks:      looks{slow: 10 * time.Millisecond, settles: 10 * time.Second},
		leaseLasts: idleTime / 2,
		locked:     lockedShards{bound: idleTime / 2},
		lockWait:   10 * time.Second,
	}
	r.cursor.Store(rand.Uint32N(Shards))
	r.Stats.delay, r.Stats.publish = newHistogram(), newHistogram()
	r.Stats.fetch, r.Stats.mark = metric.NewCalls(), metric.NewCalls()
	return r
}

// NewStreamRelay returns a relay from a database to streams.
func NewStreamRelay(db *Database, streams Streams, config RelayConfig, log *slog.Logger) *Relay {
	r := NewRelay(db, nil, config, log)
	r.streams = streams
	return r
}

// Wake tells the relay that something was stored. It never blocks.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Fault returns what keeps the relay from publishing now, or nil.
func (r *Relay) Fault() error {
	if err := r.outage.fault(); err != nil {
		return err
	}
	if err := r.locked.fault(); err != nil {
		return err
	}
	// With few users waiting, a refusal may be specific to them: only after HoldMax
	// it is reported as a fault of the broker.
	if since := r.refused.Load(); since != 0 && time.Since(time.Unix(0, since)) > r.config.HoldMax {
		return errRefusesAll
	}
	return nil
}

var errFrozen = errors.New("outbox: this process stood still, so that another relay may have its rows by now: see what stopped it (a suspended or overloaded host)")

var errRefusesAll = cure.New("outbox: the broker takes none of the events: run %s, and see the log for its answers", setupCommand)

// Run publishes until ctx ends. Batches under way then have [RelayConfig.Grace]
// to be confirmed and marked.
func (r *Relay) Run(ctx context.Context) {
	var batches conc.WaitGroup
	for range r.config.Batches {
		batches.Go(func() { r.runBatches(ctx) })
	}
	batches.Wait()
	r.refusals.Close()
}

// runBatches publishes batch after batch.
func (r *Relay) runBatches(ctx context.Context) {
	work, cancel := afterGrace(ctx, r.config.Grace)
	defer cancel()
	polls := backoff.Backoff{Min: r.config.PollMin, Max: r.config.PollMax} // jittered: goroutines spread out
	for r.rest(ctx) {
		n, err := r.batch(ctx, work)
		switch {
		case err != nil:
			r.recordOutage(ctx, err)
		case n > 0 || r.idle(ctx, polls.Next()):
			polls.Reset()
		}
	}
}

// idle waits for a wake-up or for so long, and reports whether it was woken.
func (r *Relay) idle(ctx context.Context, wait time.Duration) (woken bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-r.wake:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// rest waits while there is trouble and reports whether ctx goes on.
func (r *Relay) rest(ctx context.Context) bool {
	if pause := r.outage.pause(time.Now()); pause > 0 {
		backoff.Sleep(ctx, pause)
	}
	return ctx.Err() == nil
}

// recordOutage notes what stopped a batch, and logs it when it begins.
func (r *Relay) recordOutage(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	begins, pause := r.outage.record(err, time.Now())
	if !begins {
		return
	}
	hint := causes.Hint(err, "publishing goes on by itself, and no event is lost")
	if engine.ReasonOf(err) == reasonLocked {
		hint = lockHint
	}
	r.log.Error("nothing is published: the events wait in the database", slog.String("kind", engine.KindOf(err).String()),
		slog.Any("error", err), slog.Duration("retry_in", pause), slog.String("hint", hint))
}

// noteSuccess notes that a batch went well, and logs the end of an outage.
func (r *Relay) noteSuccess() {
	if lasted, was := r.outage.clear(); was {
		r.log.Info("the relay goes on: the fault is over", slog.Duration("away_for", lasted))
	}
}

// afterGrace returns a context that ends a while after its parent.
func afterGrace(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		backoff.Sleep(ctx, grace)
		cancel()
	})
	return ctx, func() {
		stop()
		cancel()
	}
}
