// Package settings reads the configuration that keyfold's commands share: flags
// bound to environment variables, checked together, every fault at once.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/shard"
)

// Engine are the settings of the laws, the windows and the worker.
type Engine struct {
	Dimensions     Value[int]             `name:"dimensions" env:"EMBEDDING_DIMENSIONS" help:"Components of every vector." group:"folding" for:"profiles"`
	Learned        Value[profile.Learned] `name:"learned" env:"EMBEDDING_LEARNED" placeholder:"N:GENERATION" help:"Which of the components were learned from the shop's events, as products learn prints it." group:"folding" for:"profiles"`
	Lambda         Value[float64]         `name:"decay-lambda" env:"EMBEDDING_DECAY_LAMBDA" help:"Decay per day; 0.023 is a 30-day half-life." group:"folding" for:"folding"`
	History        Value[string]          `name:"history" env:"EMBEDDING_HISTORY" words:"mass,unit" help:"mass: the exact decayed sum of all events, in any order. unit: normalise after each event, so that the order counts." group:"folding" for:"profiles"`
	ShortHalfLife  Value[Seconds]         `name:"short-half-life" env:"EMBEDDING_SHORT_HALF_LIFE" help:"Half-life of a second vector in each profile, for what a user looks for right now (seconds, or 1m); 0: none." group:"folding" for:"profiles"`
	WeightSearch   Value[float64]         `name:"weight-search" env:"EMBEDDING_WEIGHT_SEARCH" help:"Weight of a search." group:"folding" for:"folding"`
	WeightView     Value[float64]         `name:"weight-view" env:"EMBEDDING_WEIGHT_VIEW" help:"Weight of a product view." group:"folding" for:"folding"`
	WeightClick    Value[float64]         `name:"weight-click" env:"EMBEDDING_WEIGHT_CLICK" help:"Weight of a product click." group:"folding" for:"folding"`
	WeightPurchase Value[float64]         `name:"weight-purchase" env:"EMBEDDING_WEIGHT_PURCHASE" help:"Weight of a purchase." group:"folding" for:"folding"`
	EventTypes     Value[EventTypes]      `name:"event-types" env:"EVENT_TYPES" placeholder:"NAME=WEIGHT,..." help:"Event types of the shop beside the four: product_wish=0.6,product_return=-1." group:"folding" for:"types"`
	Idempotency    Value[Seconds]         `name:"idempotency-window" env:"IDEMPOTENCY_WINDOW" help:"How long a profile keeps the ids of its events (seconds, or 24h)." group:"folding" for:"folding"`

	Batching Switch         `name:"batch-enabled" env:"EMBEDDING_BATCH_ENABLED" negatable:"" help:"Collect a user's events in a window and write them once." group:"batching" for:"batching"`
	Window   Value[Seconds] `name:"batch-window" env:"EMBEDDING_BATCH_WINDOW" help:"A window closes this long after the user's last event (seconds)." group:"batching" for:"batching"`
	MaxDelay Value[Seconds] `name:"batch-max-delay" env:"EMBEDDING_BATCH_MAX_DELAY" help:"It closes at the latest this long after its first event (seconds)." group:"batching" for:"batching"`
	MaxSize  Value[int]     `name:"batch-max-size" env:"EMBEDDING_BATCH_MAX_SIZE" help:"It closes at this many events." group:"batching" for:"batching"`

	Shards     Value[int]          `name:"shards" env:"WORKER_SHARDS" help:"Worker shards (goroutines); 0 = GOMAXPROCS." group:"worker" for:"worker"`
	Prefetch   Value[int]          `name:"prefetch" env:"WORKER_PREFETCH" help:"Events held in memory at once, fewer if they do not fit the memory limit." group:"worker" for:"worker"`
	Memory     Value[Bytes]        `name:"memory-limit" env:"WORKER_MEMORY_LIMIT" help:"Memory limit of the process (M: MiB, G: GiB)."`
	MaxRetries Value[int]          `name:"max-retries" env:"WORKER_MAX_RETRIES" help:"Retries of an event after its first attempt." group:"worker" for:"retries"`
	RetryDelay Value[Milliseconds] `name:"retry-delay" env:"WORKER_RETRY_DELAY" help:"Delay of the first retry (milliseconds), doubled up to 60 s." group:"worker" for:"retries"`
	HoldMax    Value[Seconds]      `name:"hold-max" env:"WORKER_HOLD_MAX" help:"How long events wait for a store that is down before they go back to the broker (seconds)." group:"worker" for:"hold"`
	Shutdown   Value[Seconds]      `name:"shutdown-timeout" env:"WORKER_SHUTDOWN_TIMEOUT" help:"Time to flush and settle on SIGTERM (seconds)."`

	config Config // what [Read] sets
	own    EventTypes
}

// Config is what the settings amount to.
type Config struct {
	Processor processor.Config
	Shard     shard.Config
	Breaker   breaker.Config // the store's
	Retry     Retry
	Timeout   time.Duration // of a shutdown
	Memory    int64         // bytes
	Learned   profile.Learned

	Warnings []Warning // of values that are not used as given
}

// minPerEvent is what an event is reckoned to hold in memory: prefetch times
// this has to fit the held-byte budget.
const minPerEvent = 4 << 10

// maxEarly is how much earlier a window closes at most to share its flush with another that
// is due; a tenth of EMBEDDING_BATCH_WINDOW where that is less.
const maxEarly = 500 * time.Millisecond

// Memory limits. The default prefetch fits the lowest.
const (
	minMemory     = 64 << 20
	defaultMemory = 512 << 20
)

// Retry says how often and how soon an event is tried again.
type Retry struct {
	Attempts int           // after the first one
	Delay    time.Duration // before the first retry; doubled each time
}

// Bind binds each setting to its place in a default configuration.
func (s *Engine) Bind() {
	c := &s.config
	*c = Config{
		Processor: processor.DefaultConfig(),
		Shard:     shard.DefaultConfig(),
		Breaker:   breaker.DefaultConfig(),
		Retry:     Retry{Attempts: 5, Delay: 5 * time.Second},
		Timeout:   10 * time.Second,
		Memory:    defaultMemory,
	}
	c.Shard.Flushes = max(c.Shard.Flushes, 4)
	c.Shard.Shards = 0 // GOMAXPROCS
	s.Dimensions.Bind(&c.Processor.Dimensions)
	s.Learned.Bind(&c.Learned)
	s.Lambda.Bind(&c.Processor.Lambda)
	s.History.Bind((*string)(&c.Processor.History))
	s.ShortHalfLife.Bind((*Seconds)(&c.Processor.ShortHalfLife))
	s.WeightSearch.Bind(&c.Processor.Weights[profile.Search])
	s.WeightView.Bind(&c.Processor.Weights[profile.ProductView])
	s.WeightClick.Bind(&c.Processor.Weights[profile.ProductClick])
	s.WeightPurchase.Bind(&c.Processor.Weights[profile.ProductPurchase])
	s.own = nil
	s.EventTypes.Bind(&s.own)
	s.Idempotency.Bind((*Seconds)(&c.Processor.IDs.Retention))
	s.Batching.Bind(&c.Shard.Batching)
	s.Window.Bind((*Seconds)(&c.Shard.Window))
	s.MaxDelay.Bind((*Seconds)(&c.Shard.MaxDelay))
	s.MaxSize.Bind(&c.Shard.MaxSize)
	s.Shards.Bind(&c.Shard.Shards)
	s.Prefetch.Bind(&c.Shard.MaxHeld)
	s.Memory.Bind((*Bytes)(&c.Memory))
	s.MaxRetries.Bind(&c.Retry.Attempts)
	s.RetryDelay.Bind((*Milliseconds)(&c.Retry.Delay))
	s.HoldMax.Bind((*Seconds)(&c.Breaker.HoldMax))
	s.Shutdown.Bind((*Seconds)(&c.Timeout))
}

// Config reads and checks the settings; the error names every fault with the
// variable to change.
func (s Engine) Config() (Config, error) {
	s.Bind()
	fault := Read(&s)
	c := s.config
	fault = errors.Join(fault, s.own.add(&c.Processor.Weights))
	if c.Shard.Shards < 0 || c.Shard.Shards > shard.MaxShards {
		fault = errors.Join(fault, fmt.Errorf("WORKER_SHARDS is %d: it must be between 1 and %d, or 0 for the number of processors",
			c.Shard.Shards, shard.MaxShards))
		c.Shard.Shards = 0
	}
	c.Shard.Shards = cmp.Or(c.Shard.Shards, shard.DefaultConfig().Shards)
	if c.Memory < minMemory {
		fault = errors.Join(fault, fmt.Errorf("WORKER_MEMORY_LIMIT is %v: it must be at least %v", Bytes(c.Memory), Bytes(minMemory)))
		c.Memory = defaultMemory // what follows from it is not reported beside it
	}
	c.divideMemory()
	c.Shard.Early = min(c.Shard.Window/10, maxEarly)
	c.Processor.Lease, c.Processor.IDs.Horizon = Horizon(c.Breaker.HoldMax, c.Shard.MaxDelay)
	return c, errors.Join(fault, Named(&s, &s.config.Processor.Config, c.Processor.Validate()), Named(&s, &s.config.Shard, c.Shard.Validate()),
		Named(&Engine{}, nil, engine.CheckRetries(c.Retry.Attempts, c.Retry.Delay)), Named(&s, &s.config.Breaker, c.Breaker.Validate()), c.fits())
}

// TextDimensions is how many components the vectors of texts have: those that were not
// learned. There is one at least, for what is made before the settings are judged.
func (c *Config) TextDimensions() int {
	return max(1, min(c.Processor.Dimensions, profile.MaxDimensions)-c.Learned.Components)
}

// fits checks what two rooms have to agree on.
func (c *Config) fits() error {
	if c.Learned.Components > 0 && c.Learned.Components >= c.Processor.Dimensions {
		return fmt.Errorf("EMBEDDING_LEARNED is %v: it must have fewer components than EMBEDDING_DIMENSIONS, all of them, which is %d",
			c.Learned, c.Processor.Dimensions)
	}
	if c.Shard.MaxSize > c.Processor.IDs.Keep {
		return fmt.Errorf("EMBEDDING_BATCH_MAX_SIZE is %d: it must be at most %d, the ids every profile has room for",
			c.Shard.MaxSize, c.Processor.IDs.Keep)
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
	c.Processor.Lease, c.Processor.IDs.Horizon = 0, 0
	return c
}

// divideMemory gives a quarter of the limit to held events and a quarter to the
// profile cache; vectors, the store's buffers and the collector have the rest.
// Prefetch is lowered so that its events fit.
func (c *Config) divideMemory() {
	c.Shard.MaxHeldBytes = c.Memory / 4
	c.Processor.CacheBytes = c.Memory / 4
	wanted := c.Shard.MaxHeld
	c.Shard.MaxHeld = min(wanted, int(c.Shard.MaxHeldBytes/minPerEvent))
	if c.Shard.MaxHeld < wanted {
		c.Warnings = append(c.Warnings, Warning{
			"WORKER_PREFETCH", "setting lowered",
			fmt.Sprintf("%d is used instead of %d: raise WORKER_MEMORY_LIMIT (%v), of which an event takes 16 KiB", c.Shard.MaxHeld, wanted, Bytes(c.Memory)),
		})
	}
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

// Room raises the collector's limit where a process has to keep so many bytes, beside what it
// works with, and the memory limit has no room for them: the collector would do nothing else.
// It returns the limit that there should be, 0 where the configured one is enough.
func (c Config) Room(kept int64) (wanted Bytes) {
	least := kept + kept/4 + minMemory + programBytes
	if least <= c.Memory {
		return 0
	}
	debug.SetMemoryLimit(least - programBytes)
	return Bytes((least + 1<<20 - 1) >> 20 << 20)
}

// Limit makes the collector stay within the memory limit, and work less often
// as long as that is far away.
func (c Config) Limit() {
	debug.SetMemoryLimit(c.Memory - programBytes)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(GCPercent)
	}
}
