package sim

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"keyfold/engine/profile/processor"
	"keyfold/internal/settings"
	"keyfold/internal/shutdown"
	daemon "keyfold/service/profile/worker"

	"keyfold/engine/breaker"

	"keyfold/source/rabbit"
)

// worker is one life of a worker: the daemon of service/profile/worker over the model's network
// and store.
type worker struct {
	*simulation
	life    uint64
	dead    atomic.Bool // its process is gone: nothing it still does shows
	wires   []*wire     // guarded by the broker's mu
	ctx     context.Context
	cancel  context.CancelFunc // to stop
	stopped chan struct{}
	opened  atomic.Pointer[storeConn] // in a deep schedule
	daemon  atomic.Pointer[daemon.Worker]
}

const dsn = "amqp://sim:sim@broker:5672/"

// instant is the shortest pause: of what draws its pauses by itself, where the
// model's own, which are drawn from the schedule's number, space things out.
const instant = time.Nanosecond

// shutdownTimeout is the default of WORKER_SHUTDOWN_TIMEOUT.
const shutdownTimeout = 10 * time.Second

// start starts a worker in a place.
func (w *simulation) start(place int) {
	k := &worker{simulation: w, life: uint64(len(w.started) + 1), stopped: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	w.Note("worker", "started", int64(place), int64(k.life))
	w.workers[place] = k
	w.started = append(w.started, k)
	go k.work()
}

// work runs the daemon until it is told to stop, or dies.
func (k *worker) work() {
	defer close(k.stopped)
	clock, ended := shutdown.NewClock(shutdownTimeout), make(chan struct{})
	d := daemon.New(k.config(), daemon.Ports{
		OpenStore: k.openStore,
		Phrases:   &embedder{worker: k},
		Broker:    k.timing,
		Log:       slog.New(slog.DiscardHandler),
		Clock:     clock,
	})
	k.daemon.Store(d)
	err := clock.Run(k.ctx, slog.New(slog.DiscardHandler), func() error {
		defer close(ended)
		return d.Run(k.ctx)
	})
	_, overdue := errors.AsType[*shutdown.OverdueError](err)
	<-ended
	if !k.dead.Load() {
		if s := d.Stats(); s != nil {
			k.fault("a configuration fault", s.ConfigFault)
			k.fault("a panic", s.Panic)
		}
		if overdue || k.ctx.Err() == nil { // else it left what comes again
			k.fault("an end", err)
		}
	}
	k.broker.cutWires(k)
	k.Note("worker", "gone", int64(k.life))
}

func (k *worker) config() daemon.Config {
	windows := k.plan.windows
	windows.MaxHeld = k.plan.prefetch
	c := daemon.Config{
		Config: settings.Config{
			Processor: processor.DefaultConfig(), Shard: windows, Breaker: breaker.DefaultConfig(),
			Retry: k.plan.retry, Timeout: shutdownTimeout,
		},
		DSN: dsn, Names: k.broker.names,
		Identity:      rabbit.Identity{Role: "worker", Host: "sim", PID: int(k.life), Version: "sim"},
		PhraseTimeout: k.plan.phraseTimeout,
	}
	c.Processor.Config = k.laws()
	c.Processor.Lease = k.plan.lease
	c.Processor.CacheBytes, c.Processor.Conflicts = k.plan.cacheBytes, k.plan.conflicts
	c.Processor.Pause, c.Processor.MaxPause = instant, instant
	c.Breaker.MinPause, c.Breaker.MaxPause, c.Breaker.HoldMax = instant, instant, k.plan.holdMax
	return c
}

// timing connects over the model's network.
func (k *worker) timing(purpose string) rabbit.Timing {
	return rabbit.Timing{
		Dial:       func(ctx context.Context, _, _ string) (net.Conn, error) { return k.dial(ctx, purpose) },
		BackoffMin: instant, BackoffMax: instant,
	}
}

// openStore returns the worker's way to the store, which in a deep schedule may be
// away.
func (k *worker) openStore(ctx context.Context) (daemon.Store, error) {
	c := &client{store: k.store, of: k, writing: map[int32]bool{}}
	if k.server == nil {
		return c, nil
	}
	store, err := k.server.open(ctx, k)
	if err != nil {
		return nil, err
	}
	k.opened.Store(store)
	return &caller{c, store}, nil
}

// alive returns nil while the worker's process is there. A call of a process that is
// gone never comes to anything.
func (k *worker) alive(ctx context.Context) error {
	if k == nil || !k.dead.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// fault notes that the worker met what it must not.
func (k *worker) fault(what string, err error) {
	if err == nil {
		return
	}
	k.broker.mu.Lock()
	defer k.broker.mu.Unlock()
	k.broker.fault("a worker met %s: %v", what, err)
}

// stop ends the worker of a place: in order, or as kill -9 does.
func (w *simulation) stop(place int, inOrder bool) {
	k := w.workers[place]
	if k == nil {
		return
	}
	w.workers[place] = nil
	if !inOrder {
		k.dead.Store(true)
		w.Note("worker", "killed", int64(place), int64(k.life))
		w.broker.cutWires(k)
		if v := k.opened.Load(); v != nil {
			v.hangUp()
		}
	} else {
		w.Note("worker", "told to stop", int64(place), int64(k.life))
	}
	k.cancel()
}
