package taste

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"keyfold/engine"
)

// Ports are what the application reads from and writes to.
type Ports struct {
	Profiles engine.Profiles
	Products engine.Vectors[int32]
	Phrases  engine.Vectors[string]
	// Fault hears of configuration faults (another history, model or dimension
	// in the store): the worker must stop consuming. It may be called often.
	Fault func(error)
	Log   *slog.Logger
}

// Engine folds batches into profiles. It is safe for concurrent use, as long as
// no user is in two calls of Apply at once.
type Engine struct {
	config  Config
	ports   Ports
	cache   *cache
	stats   Stats
	screens sync.Pool // of *engine.Screen
	down    atomic.Pointer[error]
}

// New returns an engine over these ports.
func New(config Config, ports Ports) (*Engine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if ports.Fault == nil {
		ports.Fault = func(error) {}
	}
	if ports.Log == nil {
		ports.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		config:  config,
		ports:   ports,
		cache:   newCache(config.CacheBytes),
		screens: sync.Pool{New: func() any { return new(engine.Screen) }},
	}, nil
}

// Stats returns the engine's counters.
func (e *Engine) Stats() *Stats { return &e.stats }

// Down returns the store's last error, nil since it has answered again.
func (e *Engine) Down() error {
	if err := e.down.Load(); err != nil {
		return *err
	}
	return nil
}

// answered notes that the store works.
func (e *Engine) answered() {
	if e.down.Load() != nil && e.down.Swap(nil) != nil {
		e.ports.Log.Info("store answers again")
	}
}

// Apply folds the batches, whose users differ, and settles every delivery
// exactly once before it returns. While the store is away it waits and tries
// again; when ctx ends, what is not settled yet is held.
func (e *Engine) Apply(ctx context.Context, batches []engine.Batch) {
	f := flush{
		Engine:  e,
		ctx:     ctx,
		vectors: newVectors(),
		works:   make([]work, len(batches)),
	}
	for i := range batches {
		batches[i].Sort()
		f.works[i] = work{user: batches[i].UserID, events: batches[i].Deliveries}
	}
	e.stats.Batches.Add(int64(len(batches)))
	f.run()
}
