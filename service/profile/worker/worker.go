package worker

import (
	"cmp"
	"context"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/internal/shutdown"
	"keyfold/service/daemon"
	"keyfold/service/profile/pipeline"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/stream/reader"
)

// Worker is one daemon. It is used once: New, then Run. The other methods may be
// called from any goroutine at any time.
type Worker struct {
	config Config
	ports  Ports

	components               // only used by Run's goroutine until started is closed
	started    chan struct{} // closed when components may be read by others

	metrics      *metric.Set // nil: none are wanted
	productReads *metric.Histogram

	control daemon.Control
}

// components are what events pass through between the queue and the store.
type components struct {
	store      Store
	breaker    *breaker.Breaker // of the store
	pipeline   *pipeline.Pipeline
	prefetcher *Prefetcher // nil without a phrase timeout
	publisher  *rabbit.Publisher
	retries    *consume.DelayQueues
	consumer   *consume.Consumer
	streams    *reader.Reader // nil where none are read
}

// New returns a worker that connects when it is run.
func New(config Config, ports Ports) *Worker {
	if ports.Clock == nil {
		ports.Clock = shutdown.NewClock(config.Timeout)
	}
	if ports.Broker == nil {
		ports.Broker = func(string) rabbit.Timing { return rabbit.Timing{} }
	}
	ports.Log = ports.Log.With("component", "worker")
	return &Worker{config: config, ports: ports, started: make(chan struct{}), productReads: metric.NewCalls()}
}

// running returns the components, nil while the worker is starting.
func (w *Worker) running() *components {
	select {
	case <-w.started:
		return &w.components
	default:
		return nil
	}
}

// restBeforeProbe is after how long without a call the store is probed.
const restBeforeProbe = 10 * time.Second

// start builds the components over the store.
func (w *Worker) start(ctx context.Context) error {
	if err := w.connect(); err != nil {
		return err
	}
	var err error
	guard := w.config.Breaker
	guard.Rest = cmp.Or(guard.Rest, restBeforeProbe)
	if w.breaker, err = breaker.New(guard, w.control.Probe(w.store.Probe), w.storeChanged); err != nil {
		return err
	}
	ports, err := pipeline.Ports(w.config.Processor,
		pipeline.ObserveProfiles(w.breaker.Group, w.store), pipeline.ObserveProducts(w.breaker.Group(), w.productReads, w.store))
	if err != nil {
		return err
	}
	if w.ports.Tracing != nil {
		ports.OnFlush, ports.Profiles = w.ports.Tracing.Flush, w.ports.Tracing.Profiles(ports.Profiles)
	}
	if w.ports.Phrases != nil {
		ports.Phrases = w.ports.Phrases
	}
	if w.config.PhraseTimeout > 0 {
		w.prefetcher = NewPrefetcher(ports.Phrases, w.config.PhraseTimeout,
			func(ctx context.Context, d []profile.Delivery) error { return w.pipeline.Deliver(ctx, d) })
		if w.ordered() {
			w.prefetcher.Release(ctx) // where the order counts no event may overtake a search
		}
		ports.Phrases = w.prefetcher
	}
	ports.OnConfigError, ports.Log, ports.WaitForStore = w.faultFound, w.ports.Log, w.breaker.Wait
	// The windows must react to as many events as the broker may send, which are
	// fewer than they could hold: else they would wait for more than can come.
	windows := w.config.Shard
	windows.MaxHeld, windows.Room = w.config.Prefetch(), w.consumer.Room
	if w.config.Streams != nil {
		if err := w.readStreams(); err != nil {
			return err
		}
		windows.MaxHeld, windows.Room = windows.MaxHeld+int(windows.MaxHeldBytes/streamEventBytes), nil
	}
	if w.pipeline, err = pipeline.New(windows, w.config.Processor, ports); err != nil {
		return err
	}
	if w.metrics != nil {
		w.register(w.metrics)
	}
	close(w.started)
	return nil
}

// connect builds the connections to the broker, which are opened when they are
// used.
func (w *Worker) connect() (err error) {
	c, log := &w.config, w.ports.Log
	w.publisher = rabbit.NewPublisher(c.DSN, c.Identity, "publisher", w.ports.Broker("publisher"), log)
	w.retries = consume.NewDelayQueues(c.DSN, c.Names, c.Identity, w.ports.Broker("retries"), log)
	w.consumer, err = consume.New(consume.Config{
		DSN:          c.DSN,
		Names:        c.Names,
		Identity:     c.Identity,
		QueueType:    c.QueueType,
		NoPriorities: c.NoPriorities,
		Prefetch:     c.Prefetch(),
		MaxBytes:     c.Shard.MaxHeldBytes,
		Ordered:      w.ordered(),
		MaxRetries:   c.Retry.Attempts,
		RetryDelay:   c.Retry.Delay,
		Lease:        c.Processor.Lease,
		Timing:       w.ports.Broker("consumer"),
		Partitions:   c.Partitions,
	}, consume.Ports{
		DeadLetters:  deadletter.Queue{Publisher: w.publisher, Names: c.Names, Host: c.Identity.Host},
		Retries:      w.retries,
		Log:          log,
		Layout:       w.publisher,
		Pressed:      func() { w.pipeline.Router.Relieve() },
		CloseWindows: w.closeWindowsOf,
	})
	w.control = daemon.Control{
		Log: log, Consumers: []daemon.Consumer{w.consumer}, HoldMax: c.Breaker.HoldMax,
	}
	return settings.Named(&settings.Engine{}, nil, err)
}

// closeWindowsOf closes the windows of the users of some slots: their partition goes to
// another worker, or its prefetch is used up.
func (w *Worker) closeWindowsOf(of func(slot int) bool) {
	w.pipeline.Router.CloseWhere(func(user int32) bool { return of(engine.SlotOf(user)) })
}

// ordered reports whether profiles depend on the order of events.
func (w *Worker) ordered() bool { return w.config.Processor.History == profile.UnitMass }
