package processor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/lru"
	"keyfold/engine/profile"
	"keyfold/engine/recent"
	"keyfold/engine/rounds"
)

// Ports are what the application reads from and writes to.
type Ports struct {
	Profiles profile.Profiles
	Products engine.Vectors[int32]
	Phrases  engine.Vectors[string]
	// WaitForStore returns when the store may be asked, and whether it was known to be
	// away before; an error says that the wait is over without it: what waits is
	// held then. Where it has not been away, and a work's own calls fail all the
	// same, that work is the reason, and its events are tried again later. nil:
	// the process has its store to itself. One that fails is taken to be away,
	// and one profile that cannot be used is a fault.
	WaitForStore func(context.Context) (waited bool, err error)
	// OnConfigError hears of configuration faults (another history, model or dimension
	// in most profiles): the worker must stop consuming. It may be called often.
	OnConfigError func(error)
	// OnFlush is called at the beginning of each call of Apply, for a trace. It returns the
	// context of the stores' calls and what is called at the end. nil: it is not wanted.
	OnFlush func(context.Context, []profile.Batch) (context.Context, func())
	// Streamed tells what streams have of a user, at its call. [Engine.Rebuild] asks after it
	// has read the user's history. nil: there are no streams.
	Streamed func(ctx context.Context, user int32) (profile.Streamed, error)
	Log      *slog.Logger
}

// Engine folds batches into profiles. It is safe for concurrent use, as long as
// no user is in two calls of Apply at once.
type Engine struct {
	config     Config
	ports      Ports
	hasBreaker bool // Ports.WaitForStore is set
	policy     rounds.Policy
	cache      *lru.Cache[int32, *profile.Profile]
	stale      staleness // of cache
	stats      Stats
	dedups     sync.Pool // of *profile.Dedup
	lacking    lacking
	busiest    recent.Most[int32] // by user
	unusable   faultDetector      // users whose profiles cannot be used
	unwritable faultDetector      // users whose works the store fails while it works for others
}

// New returns an engine over these ports.
func New(config Config, ports Ports) (*Engine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if ports.OnConfigError == nil {
		ports.OnConfigError = func(error) {}
	}
	hasBreaker := ports.WaitForStore != nil
	if !hasBreaker {
		ports.WaitForStore = func(ctx context.Context) (bool, error) { return true, ctx.Err() }
	}
	if ports.Log == nil {
		ports.Log = slog.New(slog.DiscardHandler)
	}
	ports.Log = ports.Log.With("component", "fold")
	e := &Engine{
		config:     config,
		ports:      ports,
		hasBreaker: hasBreaker,
		policy:     config.policy(hasBreaker),
		cache:      newCache(config.CacheBytes),
		dedups:     sync.Pool{New: func() any { return new(profile.Dedup) }},
		unusable:   faultDetector{cost: 1},
		unwritable: faultDetector{cost: 3}, // a lost shard may be a quarter of the store
	}
	e.stats.time()
	return e, nil
}

// Stats returns the engine's counters.
func (e *Engine) Stats() *Stats { return &e.stats }

// Busiest returns the user with most of the newest events, up to 10 minutes, how many the user had
// at least, and how many all had; 0 where there were fewer than least.
func (e *Engine) Busiest(least int64) (user int32, n, all int64) { return e.busiest.Of(least) }

// Apply folds the batches, whose users differ, and settles every delivery
// exactly once before it returns. While the store is away it waits and tries
// again; when ctx ends, what is not settled yet is held.
func (e *Engine) Apply(ctx context.Context, batches []profile.Batch) {
	if e.ports.OnFlush != nil {
		var end func()
		ctx, end = e.ports.OnFlush(ctx, batches)
		defer end()
	}
	f := flush{
		Engine:  e,
		ctx:     ctx,
		vectors: newVectors(),
		sum:     &sum{began: time.Now()},
		works:   make([]work, len(batches)),
	}
	for i := range batches {
		batches[i].Sort()
		e.busiest.Add(batches[i].UserID, int64(len(batches[i].Deliveries)))
		f.works[i] = work{user: batches[i].UserID, events: batches[i].Deliveries, read: readOf(batches[i].Deliveries)}
	}
	e.stats.Batches.Add(int64(len(batches)))
	f.run()
	f.judge()
	e.stats.FlushTime.Observe(time.Since(f.sum.began))
}
