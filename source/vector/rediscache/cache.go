package rediscache

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

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
	circuit *gobreaker.CircuitBreaker[struct{}]
	stats   Stats
	share   breaker.Share

	answered atomic.Bool // at all, so far

	mu    sync.Mutex
	since time.Time // when the breaker opened; not set while closed
	cause error     // what failed last
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
	where, err := parseURL(config.URL)
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
	c.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   1,
		Timeout:       config.OpenFor,
		ReadyToTrip:   func(n gobreaker.Counts) bool { return int(n.ConsecutiveFailures) >= config.Failures },
		IsExcluded:    func(err error) bool { return errors.Is(err, errLeft) },
		OnStateChange: c.changed,
	})
	return c, nil
}

// Close closes all connections. No call may follow.
func (c *Cache) Close() error { return c.client.Close() }

// Stats returns the cache's counters.
func (c *Cache) Stats() *Stats { return &c.stats }

// State returns whether Redis is passed by, since when and why.
func (c *Cache) State() breaker.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return breaker.State{}
	}
	return breaker.State{Open: true, Since: c.since, Cause: c.cause}
}

// Failing returns which share of the last minutes' calls failed while Redis was not passed by,
// nil where it is small.
func (c *Cache) Failing() error { return c.share.Err() }

// Ping reports whether Redis answers, and if not, the cure where one is known.
// It asks what a look-up asks: a user of few rights may not PING.
func (c *Cache) Ping(ctx context.Context) error {
	return c.cure(c.client.MGet(ctx, c.key("")).Err())
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
	read := c.readOne
	if c.where.cluster != nil {
		read = c.readMany
	}
	found := make([]string, len(keys))
	if !c.call(ctx, c.config.Timeout, func(ctx context.Context) error { return read(ctx, keys, found) }) {
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
	const patience = 5
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

// errLeft marks a call whose caller left: it says nothing about Redis.
var errLeft = errors.New("the caller left")

// call makes one call within that time and reports so, unless the breaker is
// open.
func (c *Cache) call(ctx context.Context, within time.Duration, do func(context.Context) error) bool {
	_, err := c.circuit.Execute(func() (struct{}, error) {
		bounded, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		began := time.Now()
		err := c.cure(do(bounded))
		c.stats.Time.Observe(time.Since(began))
		switch {
		case err == nil:
			c.answered.Store(true)
			c.share.Note(nil)
			return struct{}{}, nil
		case ctx.Err() != nil:
			return struct{}{}, errLeft
		}
		c.stats.Failures.Add(1)
		c.share.Note(err)
		c.mu.Lock()
		c.cause = err
		c.mu.Unlock()
		return struct{}{}, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		c.stats.Bypassed.Add(1)
		return false
	}
	return true
}

func (c *Cache) changed(_ string, from, to gobreaker.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case from == gobreaker.StateClosed:
		c.since = time.Now()
	case to == gobreaker.StateClosed:
		c.since, c.cause = time.Time{}, nil
		c.share.Forget()
	}
}
