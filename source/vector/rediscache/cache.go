package rediscache

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/metric"
	"keyfold/source/vector"
)

// Cache keeps raw vectors in Redis. It is safe for concurrent use.
type Cache struct {
	config  Config
	prefix  string
	where   target
	client  redis.UniversalClient
	read    func(ctx context.Context, keys, found []string) error
	circuit *breaker.Breaker
	calls   *breaker.CallGroup
	stats   Stats
}

var _ vector.Cache = (*Cache)(nil)

// Stats counts since the start. Its fields are read with Load.
type Stats struct {
	Hits     atomic.Int64      // phrases found
	Misses   atomic.Int64      // phrases asked for in vain, unusable ones among them
	Invalid  atomic.Int64      // values that were no usable vector
	Written  atomic.Int64      // vectors written
	Failures atomic.Int64      // calls that failed
	Bypassed atomic.Int64      // calls not made, since Redis is away
	Time     *metric.Histogram // of calls
}

// Register adds the cache's series to set.
func (c *Cache) Register(set *metric.Set) {
	s := &c.stats
	set.Counter("keyfold_redis_hits_total", "Phrases that Redis held.", s.Hits.Load)
	set.Counter("keyfold_redis_misses_total", "Phrases that Redis did not hold, or only with an unusable vector.", s.Misses.Load)
	set.Counter("keyfold_redis_invalid_total", "Values in Redis that were no usable vector.", s.Invalid.Load)
	set.Counter("keyfold_redis_written_total", "Vectors written to Redis.", s.Written.Load)
	set.Counter("keyfold_redis_failures_total", "Calls of Redis that failed.", s.Failures.Load)
	set.Counter("keyfold_redis_bypassed_total", "Calls not made because Redis is down.", s.Bypassed.Load)
	set.Histogram("keyfold_redis_call_seconds", "Calls of Redis, also those that failed.", s.Time)
	breaker.RegisterState(set, "redis", c.State)
}

// New returns a cache. It connects when it is first used, so that Redis may be
// away at the start as it may be later.
func New(config Config) (*Cache, error) {
	if err := config.Validate(); err != nil {
		return nil, engine.ConfigurationError("redis", err)
	}
	where, err := parseURL(urlSetting, config.URL)
	if err != nil {
		return nil, engine.ConfigurationError("redis", err)
	}
	c := &Cache{
		config: config,
		prefix: prefix(config.Model, config.Dimensions),
		where:  where,
		client: where.connect(config.Timeout),
	}
	c.stats.Time = metric.NewCalls()
	if c.read = c.readOne; where.cluster != nil {
		c.read = c.readMany
	}
	if c.circuit, err = breaker.New(config.breaker(), c.probe, nil); err != nil {
		return nil, errors.Join(engine.ConfigurationError("redis", err), c.client.Close())
	}
	c.calls = c.circuit.Group()
	return c, nil
}

// Close closes all connections. No call may follow.
func (c *Cache) Close() error {
	c.circuit.Close()
	return c.client.Close()
}

// Stats returns the cache's counters.
func (c *Cache) Stats() *Stats { return &c.stats }

// State returns whether Redis is bypassed, since when and why.
func (c *Cache) State() breaker.State { return c.circuit.State() }

// Failing returns which share of the last minutes' calls failed while Redis was not bypassed,
// nil where it is small.
func (c *Cache) Failing() error { return c.circuit.Failing() }

// Ping reports whether Redis answers, and if not, the cure where one is known.
// It asks what a look-up asks: a user of few rights may not PING.
func (c *Cache) Ping(ctx context.Context) error {
	return c.cure(c.client.MGet(ctx, c.key("")).Err())
}

// probed is how many keys a probe asks for: in a cluster, keys of as many nodes as look-ups need.
const probed = 64

// probe makes a look-up, so that Redis is found again where no search asks for it.
func (c *Cache) probe(ctx context.Context) error {
	keys := make([]string, probed)
	for i := range keys {
		keys[i] = c.key(strconv.Itoa(i))
	}
	return c.cure(c.read(ctx, keys, make([]string, probed)))
}

// Get returns the vectors Redis holds.
func (c *Cache) Get(ctx context.Context, phrases []string) [][]float32 {
	vectors := make([][]float32, len(phrases))
	if len(phrases) == 0 {
		return vectors
	}
	keys := make([]string, len(phrases))
	for i, phrase := range phrases {
		keys[i] = c.key(phrase)
	}
	found := make([]string, len(keys))
	if !c.call(ctx, c.config.Timeout, func(ctx context.Context) error { return c.read(ctx, keys, found) }) {
		return vectors
	}
	for i, packed := range found {
		if packed != "" {
			if vectors[i] = unpack(packed, c.config.Dimensions); vectors[i] == nil {
				c.stats.Invalid.Add(1)
			}
		}
		if vectors[i] != nil {
			c.stats.Hits.Add(1)
		} else {
			c.stats.Misses.Add(1)
		}
	}
	return vectors
}

// readOne asks one server for all keys.
func (c *Cache) readOne(ctx context.Context, keys, found []string) error {
	values, err := c.client.MGet(ctx, keys...).Result()
	for i, value := range values {
		found[i], _ = value.(string)
	}
	return err
}

// readMany asks a cluster, where MGET takes keys of one slot only. The client
// sends each node its part. What one node holds is used though another is away.
func (c *Cache) readMany(ctx context.Context, keys, found []string) error {
	pipeline := c.client.Pipeline()
	replies := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		replies[i] = pipeline.Get(ctx, key)
	}
	_, _ = pipeline.Exec(ctx) // its error is the first reply's, a missing key's too
	var failure error
	for i, reply := range replies {
		value, err := reply.Result()
		if err == nil {
			found[i] = value
		} else if !errors.Is(err, redis.Nil) {
			failure = err
		}
	}
	return failure
}

// Put keeps vectors. It runs beside the callers, so that it has more time than a
// look-up.
func (c *Cache) Put(ctx context.Context, phrases []string, vectors [][]float32) {
	if len(phrases) == 0 {
		return
	}
	c.call(ctx, patience*c.config.Timeout, func(ctx context.Context) error {
		pipeline := c.client.Pipeline()
		for i, phrase := range phrases {
			pipeline.Set(ctx, c.key(phrase), pack(vectors[i]), c.lifetime())
		}
		replies, err := pipeline.Exec(ctx)
		for _, reply := range replies {
			if reply.Err() == nil {
				c.stats.Written.Add(1)
			}
		}
		return err
	})
}

// lifetime is the TTL, give or take a tenth.
func (c *Cache) lifetime() time.Duration {
	tenth := c.config.TTL / 10
	return c.config.TTL - tenth + rand.N(2*tenth+1)
}

// call makes one call within that time and reports so, unless the breaker is
// open.
func (c *Cache) call(ctx context.Context, within time.Duration, do func(context.Context) error) bool {
	if c.circuit.State().Open {
		c.stats.Bypassed.Add(1)
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c.calls.Begin()
	began := time.Now()
	err := c.cure(do(bounded))
	c.stats.Time.Observe(time.Since(began))
	if err != nil && ctx.Err() != nil {
		c.calls.Leave()
		return true
	}
	if err != nil {
		c.stats.Failures.Add(1)
	}
	c.calls.End(err)
	return true
}
