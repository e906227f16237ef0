package sim

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"keyfold/cmd/pipeline"
	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/taste"
	"keyfold/shard"
	"keyfold/source/catalog"
	"keyfold/source/rabbit"
)

// worker is one life of a worker: what `keyfold work` joins, over the model's
// network and store.
type worker struct {
	*world
	life    uint64
	dead    atomic.Bool // its process is gone: nothing it still does shows
	wires   []*wire     // guarded by the broker's mu
	ctx     context.Context
	told    context.CancelFunc // to stop
	stopped chan struct{}

	breaker   *breaker.Breaker
	pipeline  *pipeline.Pipeline
	consumer  *rabbit.Consumer
	publisher *rabbit.Publisher
	retries   *rabbit.DelayQueues
	opened    atomic.Pointer[visit] // in a deep schedule
}

const dsn = "amqp://sim:sim@broker:5672/"

// instant is the shortest pause: of what draws its pauses by itself, where the
// model's own, which are drawn from the schedule's number, space things out.
const instant = time.Nanosecond

// start starts a worker in a place.
func (w *world) start(place int) {
	k := &worker{world: w, life: uint64(len(w.lived) + 1), stopped: make(chan struct{})}
	k.ctx, k.told = context.WithCancel(context.Background())
	w.note("worker", "started", int64(place), int64(k.life))
	w.workers[place] = k
	w.lived = append(w.lived, k)
	go k.work()
}

// join builds the way from the queue to the store, as cmd/keyfold does.
func (k *worker) join() error {
	c, err := k.reachStore()
	if err != nil {
		return err
	}
	b := breaker.DefaultConfig()
	b.MinPause, b.MaxPause, b.HoldMax = instant, instant, k.plan.holdMax
	if k.breaker, err = breaker.New(b, c.probe, k.storeChanged); err != nil {
		return err
	}
	shop := catalog.DefaultConfig()
	laws := taste.DefaultConfig()
	laws.Config = k.laws()
	laws.Lease = k.plan.lease
	laws.CacheBytes, laws.Conflicts = k.plan.cacheBytes, k.plan.conflicts
	laws.Pause, laws.MaxPause = instant, instant
	shop.Dimensions, shop.Model = laws.Dimensions, laws.Model
	products, err := catalog.New(shop, pipeline.GuardProducts(k.breaker.Line(), c))
	if err != nil {
		return err
	}
	ports := taste.Ports{
		Profiles: pipeline.GuardProfiles(k.breaker.Line, c),
		Products: products,
		Phrases:  &embedder{world: k.world, life: k.life},
		Await:    k.breaker.Wait,
		Fault:    k.fault,
	}
	if k.pipeline, err = pipeline.New(k.router(), laws, ports); err != nil {
		return err
	}
	return k.connect()
}

// shelf is a worker's way to what is stored.
type shelf interface {
	engine.Profiles
	catalog.Store
	probe(context.Context) error
}

// reachStore returns the worker's way to the store, which in a deep schedule may
// take a while.
func (k *worker) reachStore() (shelf, error) {
	c := &client{store: k.store, worker: k.life, flying: map[int32]bool{}}
	if k.server == nil {
		return c, nil
	}
	for {
		store, err := k.server.open(k.ctx, k)
		if err == nil {
			k.opened.Store(store)
			return &caller{c, store}, nil
		}
		if err := pause(k.ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

func (k *worker) router() shard.Config {
	p := &k.plan.windows
	c := shard.DefaultConfig()
	c.Shards, c.Flushes, c.FlushKeys, c.MaxSize = p.shards, p.flushes, p.keys, p.size
	c.Window, c.MaxDelay, c.Batching = p.idle, p.delay, p.batching
	c.MaxHeld = k.plan.maxHeld
	return c
}

func (k *worker) connect() (err error) {
	log := slog.New(slog.DiscardHandler)
	who := rabbit.Identity{Role: "worker", Host: "sim", PID: int(k.life), Version: "sim"}
	timing := func(purpose string) rabbit.Timing {
		return rabbit.Timing{
			Dial:       func(ctx context.Context, _, _ string) (net.Conn, error) { return k.dial(ctx, purpose) },
			BackoffMin: instant, BackoffMax: instant,
		}
	}
	names := k.broker.names
	k.publisher = rabbit.NewPublisher(dsn, who, "publisher", timing("letters"), log)
	k.retries = rabbit.NewDelayQueues(dsn, names, who, timing("retries"), log)
	k.consumer, err = rabbit.NewConsumer(rabbit.Config{
		DSN: dsn, Names: names, Identity: who, Prefetch: k.plan.prefetch,
		MaxRetries: k.plan.retries, RetryDelay: k.plan.retryDelay, Lease: k.plan.lease, Timing: timing("consumer"),
	}, rabbit.Ports{
		DeadLetters: rabbit.DeadLetterQueue{Publisher: k.publisher, Names: names, Host: who.Host},
		Retries:     k.retries,
		Log:         log,
	})
	return err
}

// storeChanged is told what the store's breaker stands at.
func (k *worker) storeChanged(s breaker.State) {
	switch {
	case s.Expired:
		k.consumer.GiveBack()
	case s.Open:
		k.consumer.Pause()
	default:
		k.consumer.Resume()
	}
}

func (k *worker) fault(err error) {
	k.broker.mu.Lock()
	defer k.broker.mu.Unlock()
	k.broker.fault("a worker met a configuration fault: %v", err)
}

// work runs until the worker is told to stop, or dies.
func (k *worker) work() {
	defer close(k.stopped)
	if err := k.join(); err != nil {
		if k.ctx.Err() == nil {
			k.fault(err)
		}
		return
	}
	err := k.consumer.Run(k.ctx, k.pipeline.Deliver)
	if err != nil && !k.dead.Load() && k.ctx.Err() == nil {
		k.fault(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	if k.dead.Load() {
		cancel()
	}
	k.breaker.Close()
	drained := k.pipeline.Router.Drain(ctx)
	var left *shard.DrainError
	if drained != nil && !errors.As(drained, &left) || k.pipeline.Router.Err() != nil {
		k.fault(drained)
	}
	_ = k.consumer.Close(ctx) // what it left open comes again
	parting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = k.retries.Close(parting)
	_ = k.publisher.Close(parting)
	if v := k.opened.Load(); v != nil {
		v.Close()
	}
	k.broker.cutWires(k)
	k.note("worker", "gone", int64(k.life))
}

// stop ends the worker of a place: in order, or as kill -9 does.
func (w *world) stop(place int, inOrder bool) {
	k := w.workers[place]
	if k == nil {
		return
	}
	w.workers[place] = nil
	if !inOrder {
		k.dead.Store(true)
		w.note("worker", "killed", int64(place), int64(k.life))
		w.broker.cutWires(k)
		if v := k.opened.Load(); v != nil {
			v.hangUp()
		}
	} else {
		w.note("worker", "told to stop", int64(place), int64(k.life))
	}
	k.told()
}
