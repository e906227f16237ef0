package consume

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/terse"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// Ports is what a consumer is joined to.
type Ports struct {
	DeadLetters DeadLetters
	Retries     Retries
	Log         *slog.Logger

	// Pressed has the oldest windows closed where [Consumer.Room] says that little more may
	// come; nil: there are no windows.
	Pressed func()

	// Used where [Config.Partitions] are.

	// Layout asks the broker for the number of partitions.
	Layout *rabbit.Publisher
	// CloseWindows closes the windows of the users of some slots, without waiting until
	// they are written; nil: there are no windows.
	CloseWindows func(of func(slot int) bool)
}

// Consumer delivers the events of a queue and acknowledges those that are
// settled. It is used once: Run, and when Run has returned, Close.
type Consumer struct {
	Stats      Stats
	Accounting Accounting

	config      Config
	ports       Ports
	dialer      rabbit.Dialer
	generation  atomic.Uint64
	reading     atomic.Bool // while a queue is consumed, not while paused
	resuming    atomic.Bool // while it is to be consumed and too much is held
	live        atomic.Pointer[session]
	gate        *gate // shut while paused
	sizes       *sizes
	deadLetters *deadLetterer
	layout      topology.Layout // of the partitions, as last seen
	work        sync.WaitGroup  // the goroutine that stores dead letters
	stopWork    context.CancelFunc

	last *session // the one Run left for Close; nil where none was open

	fault terse.Fault // of the connection

	mu     sync.Mutex
	status error // nil while consuming
}

// ErrNoQueue says that the queue of an optional consumer does not exist.
var ErrNoQueue = errors.New("rabbitmq: the queue does not exist")

var (
	errNotConnected = errors.New("rabbitmq: not connected yet")
	errStopped      = errors.New("rabbitmq: consumer stopped")
	errOnPause      = errors.New("rabbitmq: consuming is paused")
)

// New returns a consumer that connects when it is run.
func New(config Config, ports Ports) (*Consumer, error) {
	if err := config.Validate(); err != nil {
		return nil, engine.ConfigurationError("bad_setting", err)
	}
	config.Timing = config.Timing.OrDefaults()
	if config.Describe == nil {
		config.Describe = DescribeEvent
	}
	ports.Log = ports.Log.With("component", "rabbit")
	c := &Consumer{
		config: config, ports: ports, gate: newGate(), status: errNotConnected,
		sizes:  newSizes(config.Prefetch, config.MaxBytes),
		dialer: rabbit.Dialer{DSN: config.DSN, Name: config.Identity.Connection("consumer"), Timing: config.Timing},
	}
	c.deadLetters = newDeadLetterer(ports.DeadLetters, config.Timing, &c.Stats, ports.Log)
	c.deadLetters.names = config.Names
	return c, nil
}

// Pause cancels the consumer at the broker; what is here already is still handed over. The
// consumers of partitions stay, because a cancelled one would hand its partition over with
// events held here: they read nothing until Resume, and the broker sends no more than their prefetch.
func (c *Consumer) Pause() { c.gate.set(true) }

// Resume consumes again. Where messages got the verdict Unsettled, that is on a new
// channel: the broker takes back all that is not acknowledged and delivers it
// again.
func (c *Consumer) Resume() { c.gate.set(false) }

// Idle reports whether nothing is being received, and what was received is handed over: a
// pause has come into force, or there is no session. It is not for [Config.Partitions].
func (c *Consumer) Idle() bool { return !c.reading.Load() }

// Room returns how many more messages the broker may deliver than are in hand; false where
// that does not depend on what is in hand: while paused or not connected.
func (c *Consumer) Room() (messages int, ok bool) {
	s := c.live.Load()
	if s == nil {
		return 0, false
	}
	if shut, _ := c.gate.state(); shut {
		return 0, false
	}
	room, inForce := s.room()
	return int(room), inForce > 0 || c.resuming.Load()
}

// inForce returns how many messages may be received and not acknowledged at once.
func (c *Consumer) inForce() int64 {
	s := c.live.Load()
	if s == nil {
		return 0
	}
	_, inForce := s.room()
	return inForce
}

// GiveBack has the broker take back all that is not acknowledged, by closing the
// channels; while paused, nothing comes in their place until Resume. Verdicts
// that come later are dropped: the broker delivers those events again.
func (c *Consumer) GiveBack() { c.gate.requestGiveBack() }

// Ready returns nil while the consumer consumes, and otherwise why it does not.
func (c *Consumer) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status == nil {
		if shut, _ := c.gate.state(); shut {
			return errOnPause
		}
	}
	return c.status
}

// Unstored returns how many given-up events the dead-letter queue did not take
// so far, and the last failure. They are unacknowledged.
func (c *Consumer) Unstored() (events int, cause error) { return c.deadLetters.copies.unconfirmed() }

func (c *Consumer) setStatus(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	connected := int64(0)
	if err == nil {
		connected = 1
	}
	c.Stats.Connected.Store(connected)
	c.status = err
}

// closeGrace is what the closing handshake may take beyond the caller's time.
const closeGrace = time.Second

// Close waits until what was handed over is settled, sends the last
// acknowledgements and closes channel and connection in order; whatever is open
// when ctx ends goes back to the broker, and Close says how much. It takes at
// most a second longer than ctx.
func (c *Consumer) Close(ctx context.Context) error {
	failpoint.Reach(failpoint.Drained)
	var err error
	s := c.last
	c.last = nil
	if s != nil {
		err = s.settled(ctx)
	}
	if c.stopWork != nil {
		c.stopWork()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	if s != nil {
		s.close(ctx)
	}
	// Storing letters may be stuck in a socket that the broker does not read, which
	// closing the dead letters' publisher frees.
	waitUntil(ctx, &c.work)
	c.deadLetters.malformed.Close()
	return err
}

// waitUntil waits for goroutines until ctx ends, and reports whether they have ended.
func waitUntil(ctx context.Context, work *sync.WaitGroup) bool {
	ended := make(chan struct{})
	go func() {
		work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}
