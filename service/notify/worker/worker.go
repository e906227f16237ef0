package worker

import (
	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/metric"
	"keyfold/engine/notify/processor"
	"keyfold/internal/settings"
	"keyfold/internal/shutdown"
	"keyfold/service/daemon"
	"keyfold/service/notify/broker"
	"keyfold/service/notify/notifier"
	"keyfold/sink/ledger/cache"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
)

// Worker is one daemon. It is used once: New, then Run. The other methods may be
// called from any goroutine at any time.
type Worker struct {
	config Config
	ports  Ports

	components               // only used by Run's goroutine until started is closed
	started    chan struct{} // closed when components may be read by others

	metrics *metric.Set // nil: none are wanted

	control daemon.Control
}

// components are what events pass through between the queues and the ledger.
type components struct {
	ledger     Ledger
	breaker    *breaker.Breaker // of the ledger
	notifier   *notifier.Notifier
	reports    *notifier.Reports
	backlog    *notifier.Backlog
	cache      *cache.Ledger
	publisher  *rabbit.Publisher // of dead letters
	dispatches *rabbit.Publisher
	inputs     []*input
}

// input is one queue that is consumed.
type input struct {
	consumer *consume.Consumer
	retries  *consume.DelayQueues
	chunks   func() consume.Chunk
}

// New returns a worker that connects when it is run.
func New(config Config, ports Ports) *Worker {
	if ports.Clock == nil {
		ports.Clock = shutdown.NewClock(config.Timeout)
	}
	if ports.Broker == nil {
		ports.Broker = func(string) rabbit.Timing { return rabbit.Timing{} }
	}
	if ports.Now == nil {
		ports.Now = engine.Now
	}
	ports.Log = ports.Log.With("component", "notify")
	return &Worker{config: config, ports: ports, started: make(chan struct{})}
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

// start builds the components over the ledger.
func (w *Worker) start() error {
	c, log := &w.config, w.ports.Log
	w.publisher = rabbit.NewPublisher(c.DSN, c.Identity, "publisher", w.ports.Broker("publisher"), log)
	w.dispatches = rabbit.NewPublisher(c.DSN, c.Identity, "dispatches", w.ports.Broker("dispatches"), log)
	w.control = daemon.Control{
		Log: log, HoldMax: c.Breaker.HoldMax,
	}
	var err error
	if w.breaker, err = breaker.New(c.Breaker, w.control.Probe(w.ledger.Probe), w.control.StoreChanged); err != nil {
		return err
	}
	ledger := guard(w.breaker.Group, w.ledger)
	w.backlog = notifier.NewBacklog()
	w.reports = notifier.CountReports(waitingReports{ledger, w.breaker.Wait})
	if err := w.consumeFrom(); err != nil {
		return err
	}
	for _, in := range w.inputs {
		w.control.Consumers = append(w.control.Consumers, in.consumer)
	}
	w.cache = cache.New(ledger, c.CacheBytes)
	sender := broker.NewSender(w.dispatches, c.DispatchTimeout)
	sender.Links = w.ports.Links
	sender.Now = w.ports.Now
	w.notifier, err = notifier.New(c.Notifier, processor.Ports{
		Ledger: w.cache, Dispatcher: sender, Sets: w.ports.Sets, Scores: w.ports.Scores, Shadows: w.ports.Shadows,
		Clock:         w.ports.Now,
		WaitForLedger: w.breaker.Wait, OnConfigError: w.control.FaultFound, Log: log,
	})
	if err != nil {
		return err
	}
	w.notifier.Leases = w.ledger
	w.control.Others = []daemon.Pauser{w.notifier}
	if w.metrics != nil {
		w.register(w.metrics)
	}
	close(w.started)
	return nil
}

// consumeFrom builds the consumers, which connect when they are run.
func (w *Worker) consumeFrom() error {
	events := broker.Events(w.deliver, w.ports.Now)
	for _, queue := range []struct {
		names    rabbit.Names
		prefetch int
		chunks   func() consume.Chunk
	}{
		{broker.Urgent(), w.config.UrgentPrefetch, events},
		{broker.Bulk(), w.config.BulkPrefetch, events},
		{broker.Deliveries(), w.config.ReportPrefetch, broker.Reports(w.reports, w.ports.Now, w.control.FaultFound)},
	} {
		in, err := w.input(queue.names, queue.prefetch)
		if err != nil {
			return err
		}
		in.chunks = queue.chunks
		w.inputs = append(w.inputs, in)
	}
	return nil
}

func (w *Worker) input(names rabbit.Names, prefetch int) (*input, error) {
	c, log := &w.config, w.ports.Log
	in := &input{retries: consume.NewDelayQueues(c.DSN, names, c.Identity, w.ports.Broker("retries"), log)}
	var err error
	in.consumer, err = consume.New(consume.Config{
		DSN:        c.DSN,
		Names:      names,
		Identity:   c.Identity,
		Describe:   broker.Describe,
		QueueType:  c.QueueType,
		Prefetch:   prefetch,
		MaxBytes:   c.MaxBytes,
		MaxRetries: c.Retry.Attempts,
		RetryDelay: c.Retry.Delay,
		Timing:     w.ports.Broker("consumer"),
	}, consume.Ports{
		DeadLetters: deadletter.Queue{Publisher: w.publisher, Names: names, Host: c.Identity.Host, Describe: broker.Describe},
		Retries:     in.retries,
		Log:         log,
	})
	return in, settings.Named(&settings.Engine{}, nil, err)
}
