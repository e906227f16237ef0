// Package settings reads the configuration that keyfold's commands share: flags
// bound to environment variables, checked together, every fault at once.
package settings

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/taste"
	"keyfold/shard"
)

// Engine are the settings of the laws, the windows and the worker. They stay
// text until [Engine.Config] reads them all, so that one bad value does not
// hide the next.
type Engine struct {
	Dimensions     string `name:"dimensions" env:"EMBEDDING_DIMENSIONS" default:"1536" help:"Components of every vector." group:"folding" for:"profiles"`
	Lambda         string `name:"decay-lambda" env:"EMBEDDING_DECAY_LAMBDA" default:"0.023" help:"Decay per day; 0.023 is a 30-day half-life." group:"folding" for:"folding"`
	History        string `name:"history" env:"EMBEDDING_HISTORY" default:"mass" help:"mass: the exact decayed sum of all events, in any order. unit: normalise after each event, so that the order counts." group:"folding" for:"profiles"`
	WeightSearch   string `name:"weight-search" env:"EMBEDDING_WEIGHT_SEARCH" default:"0.7" help:"Weight of a search." group:"folding" for:"folding"`
	WeightView     string `name:"weight-view" env:"EMBEDDING_WEIGHT_VIEW" default:"0.3" help:"Weight of a product view." group:"folding" for:"folding"`
	WeightClick    string `name:"weight-click" env:"EMBEDDING_WEIGHT_CLICK" default:"0.5" help:"Weight of a product click." group:"folding" for:"folding"`
	WeightPurchase string `name:"weight-purchase" env:"EMBEDDING_WEIGHT_PURCHASE" default:"1.0" help:"Weight of a purchase." group:"folding" for:"folding"`
	Idempotency    string `name:"idempotency-window" env:"IDEMPOTENCY_WINDOW" default:"24h" help:"How long a profile keeps the ids of its events (seconds, or 24h)." group:"folding" for:"folding"`

	Batching Switch `name:"batch-enabled" env:"EMBEDDING_BATCH_ENABLED" default:"true" negatable:"" help:"Collect a user's events in a window and write them once." group:"batching" for:"batching"`
	Window   string `name:"batch-window" env:"EMBEDDING_BATCH_WINDOW" default:"5" help:"A window closes this long after the user's last event (seconds)." group:"batching" for:"batching"`
	MaxDelay string `name:"batch-max-delay" env:"EMBEDDING_BATCH_MAX_DELAY" default:"15" help:"It closes at the latest this long after its first event (seconds)." group:"batching" for:"batching"`
	MaxSize  string `name:"batch-max-size" env:"EMBEDDING_BATCH_MAX_SIZE" default:"500" help:"It closes at this many events." group:"batching" for:"batching"`

	Shards     string `name:"shards" env:"WORKER_SHARDS" default:"0" help:"Worker shards (goroutines); 0 = GOMAXPROCS." group:"worker" for:"worker"`
	Prefetch   string `name:"prefetch" env:"WORKER_PREFETCH" default:"4096" help:"Events held in memory at once, fewer if they do not fit the memory limit." group:"worker" for:"worker"`
	Memory     string `name:"memory-limit" env:"WORKER_MEMORY_LIMIT" default:"512M" help:"Memory limit of the process (M: MiB, G: GiB)."`
	MaxRetries string `name:"max-retries" env:"WORKER_MAX_RETRIES" default:"5" help:"Retries of an event after its first attempt." group:"worker" for:"retries"`
	RetryDelay string `name:"retry-delay" env:"WORKER_RETRY_DELAY" default:"5000" help:"Delay of the first retry (milliseconds), doubled up to 60 s." group:"worker" for:"retries"`
	HoldMax    string `name:"hold-max" env:"WORKER_HOLD_MAX" default:"60" help:"How long events wait for a store that is down before they go back to the broker (seconds)." group:"worker" for:"hold"`
	Shutdown   string `name:"shutdown-timeout" env:"WORKER_SHUTDOWN_TIMEOUT" default:"10" help:"Time to flush and settle on SIGTERM (seconds)."`
}

// Config is what the settings amount to.
type Config struct {
	Taste   taste.Config
	Shard   shard.Config
	Breaker breaker.Config // the store's
	Retry   Retry
	Timeout time.Duration // of a shutdown
	Memory  int64         // bytes
}

// minPerEvent is what an event is reckoned to hold in memory: prefetch times
// this has to fit the held-byte budget.
const minPerEvent = 4 << 10

// Config reads and checks the settings; the error names every fault with the
// variable to change.
func (s Engine) Config() (Config, error) {
	var p reader
	c := Config{
		Taste:   taste.DefaultConfig(),
		Shard:   shard.DefaultConfig(),
		Breaker: breaker.DefaultConfig(),
		Retry:   Retry{Attempts: 5, Delay: 5 * time.Second},
		Timeout: 10 * time.Second,
		Memory:  512 << 20,
	}
	s.readLaws(&p, &c.Taste.Config)
	s.readWindows(&p, &c.Shard)
	p.integer("WORKER_MAX_RETRIES", s.MaxRetries, &c.Retry.Attempts)
	p.milliseconds("WORKER_RETRY_DELAY", s.RetryDelay, &c.Retry.Delay)
	p.seconds("WORKER_HOLD_MAX", s.HoldMax, &c.Breaker.HoldMax)
	p.seconds("WORKER_SHUTDOWN_TIMEOUT", s.Shutdown, &c.Timeout)
	p.bytes("WORKER_MEMORY_LIMIT", s.Memory, &c.Memory)
	if c.Memory < 64<<20 {
		p.fault("WORKER_MEMORY_LIMIT is %s: it must be at least 64M", s.Memory)
	}
	c.divideMemory()
	c.Taste.Lease, c.Taste.IDs.Horizon = Horizon(c.Breaker.HoldMax, c.Shard.MaxDelay)
	return c, errors.Join(p.err(), c.Taste.Validate(), c.Shard.Validate(), c.Retry.Validate(),
		c.Breaker.Validate(), c.fits())
}

// fits checks what two rooms have to agree on.
func (c *Config) fits() error {
	if c.Shard.MaxSize > c.Taste.IDs.Keep {
		return fmt.Errorf("EMBEDDING_BATCH_MAX_SIZE is %d: it must be at most %d, the ids every profile has room for",
			c.Shard.MaxSize, c.Taste.IDs.Keep)
	}
	return nil
}

// What the horizon is made of, beside the settings.
const (
	settling  = 15 * time.Second // from a window's close to the acknowledgement
	detection = 30 * time.Second // three heartbeats: until a broker gives up a silent worker
	hops      = 2                // failed deliveries in a row that the horizon covers
)

// Horizon derives for how long an event may be folded after its delivery (the
// lease), and for how long its id must be kept at least. An event that was folded
// at the start of a delivery and never acknowledged stays with its worker for the
// lease and the detection; then it waits at the head of the queue while other
// workers settle what they hold, a lease at most. After so many hops the last
// delivery looks the id up within its lease. Another lease is spare, for the time
// a write takes to arrive.
func Horizon(holdMax, maxDelay time.Duration) (lease, horizon time.Duration) {
	lease = holdMax + maxDelay + settling
	return lease, hops*(2*lease+detection) + 2*lease
}

// WithoutBroker returns the settings for a program whose events cannot come to
// another worker: no delivery ends, and ids need no horizon.
func (c Config) WithoutBroker() Config {
	c.Taste.Lease, c.Taste.IDs.Horizon = 0, 0
	return c
}

func (s Engine) readLaws(p *reader, c *engine.Config) {
	p.integer("EMBEDDING_DIMENSIONS", s.Dimensions, &c.Dimensions)
	p.number("EMBEDDING_DECAY_LAMBDA", s.Lambda, &c.Lambda)
	c.History = engine.History(s.History)
	p.number("EMBEDDING_WEIGHT_SEARCH", s.WeightSearch, &c.Weights.Search)
	p.number("EMBEDDING_WEIGHT_VIEW", s.WeightView, &c.Weights.View)
	p.number("EMBEDDING_WEIGHT_CLICK", s.WeightClick, &c.Weights.Click)
	p.number("EMBEDDING_WEIGHT_PURCHASE", s.WeightPurchase, &c.Weights.Purchase)
	p.seconds("IDEMPOTENCY_WINDOW", s.Idempotency, &c.IDs.Retention)
}

func (s Engine) readWindows(p *reader, c *shard.Config) {
	p.add(s.Batching.Read("EMBEDDING_BATCH_ENABLED", &c.Batching))
	p.seconds("EMBEDDING_BATCH_WINDOW", s.Window, &c.Window)
	p.seconds("EMBEDDING_BATCH_MAX_DELAY", s.MaxDelay, &c.MaxDelay)
	p.integer("EMBEDDING_BATCH_MAX_SIZE", s.MaxSize, &c.MaxSize)
	p.integer("WORKER_PREFETCH", s.Prefetch, &c.MaxHeld)
	shards := 0
	p.integer("WORKER_SHARDS", s.Shards, &shards)
	if shards != 0 {
		c.Shards = shards
	}
	c.Flushes = max(c.Flushes, 4)
}

// divideMemory gives a quarter of the limit to held events and a quarter to the
// profile cache; vectors, the store's buffers and the collector have the rest.
// Prefetch is lowered so that its events fit.
func (c *Config) divideMemory() {
	c.Shard.MaxHeldBytes = c.Memory / 4
	c.Taste.CacheBytes = c.Memory / 4
	c.Shard.MaxHeld = min(c.Shard.MaxHeld, int(c.Shard.MaxHeldBytes/minPerEvent))
}

// Prefetch is how many messages a broker may have delivered and not seen
// acknowledged.
func (c Config) Prefetch() int { return max(1, c.Shard.MaxHeld) }

// GCPercent is how often a worker collects: at four times its live memory, as
// most of its garbage is vectors.
const GCPercent = 300

// programBytes is what the pages of the program itself take up, which the
// collector does not count (28.8 MiB resident, measured).
const programBytes = 28 << 20

// Limit makes the collector stay within the memory limit, and work less often
// as long as that is far away.
func (c Config) Limit() {
	debug.SetMemoryLimit(c.Memory - programBytes)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(GCPercent)
	}
}
