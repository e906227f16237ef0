package partitioner

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/internal/shutdown"
	"keyfold/service/daemon"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/rabbit/topology"
)

// prefetch is how many messages of a queue are held at once: several chunks, so that the
// broker sends the next one while copies are confirmed. It does not follow the size of the
// messages: a consumer that starts anew to change it makes another stage the active one.
const prefetch = 1024

// Config holds a stage's settings.
type Config struct {
	DSN      string
	Names    rabbit.Names
	Identity rabbit.Identity
	// Lease is for how long after its arrival a message may be published; default 60 s,
	// well below the time for which profiles keep the ids of folded events.
	Lease time.Duration
	// PublishTimeout bounds one publication; default 10 s.
	PublishTimeout time.Duration
	// WaitMin and WaitMax are how long a publication that failed waits for the next one:
	// the wait doubles; default 0.2 s and 15 s.
	WaitMin, WaitMax time.Duration
	// Look is the time between two looks whether the broker has partitions; default 15 s.
	Look   time.Duration
	Timing rabbit.Timing // of all connections
	// Follow, if not nil, may replace the trace and the settler of each message whose copy
	// is to be published. The trace is nil if the message has none.
	Follow func(of *engine.Trace, id string, s engine.Settler) (*engine.Trace, engine.Settler)
}

// Partitioner is one stage. It is used once: New, then Run. The other methods may be
// called from any goroutine at any time.
type Partitioner struct {
	Stats Stats

	config    Config
	log       *slog.Logger
	clock     *shutdown.Clock
	publisher *rabbit.Publisher // of the copies
	send      func(context.Context, []rabbit.Message) []error
	letters   *rabbit.Publisher
	common    *consume.Consumer
	old       *consume.Consumer // of the single queue used before partitions; paused without partitions
	draining  atomic.Bool       // old is not paused
	outage    outage
}

// New returns a stage that connects when it is run. The clock bounds its stop.
func New(config Config, clock *shutdown.Clock, log *slog.Logger) (*Partitioner, error) {
	config, log = config.orDefaults(), log.With("component", "partition")
	p := &Partitioner{
		config: config, log: log, clock: clock,
		publisher: rabbit.NewPublisher(config.DSN, config.Identity, "publisher", config.Timing, log),
		letters:   rabbit.NewPublisher(config.DSN, config.Identity, "dead letters", config.Timing, log),
	}
	p.send = p.publisher.Publish
	var err, oldErr error
	p.common, err = p.consumer(config.Names.CommonQueue(), false)
	p.old, oldErr = p.consumer(config.Names.Queue, true)
	if err := errors.Join(err, oldErr); err != nil {
		return nil, err
	}
	p.old.Pause()
	return p, nil
}

func (c Config) orDefaults() Config {
	if c.Lease == 0 {
		c.Lease = time.Minute
	}
	if c.PublishTimeout == 0 {
		c.PublishTimeout = 10 * time.Second
	}
	if c.WaitMin == 0 {
		c.WaitMin = 200 * time.Millisecond
	}
	if c.WaitMax == 0 {
		c.WaitMax = 15 * time.Second
	}
	if c.Look == 0 {
		c.Look = 15 * time.Second
	}
	c.Names.Setup = setupCommand
	return c
}

// consumer returns the consumer of a queue. Its retries are never used: see
// [chunk.HandOver].
func (p *Partitioner) consumer(queue string, optional bool) (*consume.Consumer, error) {
	names := p.config.Names
	names.Queue = queue
	return consume.New(consume.Config{
		DSN: p.config.DSN, Names: names, Identity: p.config.Identity, Optional: optional,
		Prefetch: prefetch, Ordered: true, RetryDelay: time.Second, Lease: p.config.Lease, Timing: p.config.Timing,
	}, consume.Ports{
		DeadLetters: deadletter.Queue{Publisher: p.letters, Names: names, Host: p.config.Identity.Host},
		Retries:     consume.InProcess{},
		Log:         p.log,
	})
}

func (p *Partitioner) consumers() []*consume.Consumer { return []*consume.Consumer{p.common, p.old} }

// Run moves events until ctx ends or the stage cannot go on: then the error is a
// configuration fault that names the cure.
func (p *Partitioner) Run(ctx context.Context) error {
	p.log.Info("partitioning", slog.String("broker", rabbit.Redact(p.config.DSN)))
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		p.drain(ctx)
		cancel(nil)
	})()
	var running sync.WaitGroup
	for _, c := range p.consumers() {
		running.Go(func() {
			if err := c.Run(work, p.chunks); err != nil {
				cancel(err) // one fault meets both
			}
		})
	}
	running.Go(func() { p.followLayout(ctx, work) })
	running.Wait()
	var fault error
	if ctx.Err() == nil {
		fault = context.Cause(work)
	}
	return errors.Join(fault, p.close(ctx))
}

// followLayout has the single queue used before partitions drained while the broker has partitions, until
// either context ends. Without partitions it is the workers' queue: what was published to
// a partition would wait there for a worker that consumes it.
func (p *Partitioner) followLayout(ctx, work context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(work, cancel)()
	for {
		partitions, err := topology.CountPartitions(ctx, p.config.DSN, p.config.Names)
		if on := partitions > 0; err == nil && p.draining.CompareAndSwap(!on, on) {
			if on {
				p.old.Resume()
			} else {
				p.old.Pause()
			}
			p.log.Info("looked whether the broker has partitions", slog.Int("partitions", partitions),
				slog.String("queue", p.config.Names.Queue), slog.Bool("drained", on))
		}
		if !backoff.Sleep(ctx, p.config.Look) {
			return
		}
	}
}

// drain publishes what was received, for as long as that succeeds and time is left: what
// goes back to the broker is marked as delivered before, as after a crash, and its copies
// have to say that there may be earlier ones.
func (p *Partitioner) drain(parent context.Context) {
	for _, c := range p.consumers() {
		c.Pause()
	}
	ctx, cancel := p.clock.Context(parent, shutdown.CloseReserve+grace)
	defer cancel()
	received := func(s *consume.Stats) *atomic.Int64 { return &s.Unacked }
	for p.outage.fault() == nil && backoff.Sleep(ctx, 5*time.Millisecond) {
		if p.common.Idle() && p.old.Idle() && p.Consumed(received) == 0 {
			return
		}
	}
}

// close acknowledges what is confirmed and closes the connections.
func (p *Partitioner) close(parent context.Context) error {
	ctx, cancel := p.clock.Context(parent, shutdown.CloseReserve)
	defer cancel()
	var errs []error
	for _, c := range p.consumers() {
		errs = append(errs, c.Close(ctx))
	}
	closing, cancelClosing := p.clock.Context(parent, shutdown.ConnCloseTimeout)
	defer cancelClosing()
	errs = append(errs, daemon.CloseSideBySide(closing, p.publisher.Close, p.letters.Close))
	p.log.Info("partitioning stopped")
	return errors.Join(errs...)
}
