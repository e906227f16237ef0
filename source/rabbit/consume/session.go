package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/partition"
	"keyfold/source/rabbit/topology"
)

// Why a session ended, besides a lost connection.
var (
	// errGiveBack: held deliveries are to be delivered again.
	errGiveBack = errors.New("rabbitmq: giving held messages back to the broker")
	// errPaused is no end: consuming stopped and may go on.
	errPaused = errors.New("rabbitmq: paused")
	errClosed = errors.New("rabbitmq: closed")
)

var errQueueGone = errors.New("rabbitmq: the broker cancelled the consumer")

// errCancelled is why a session ended whose queue is gone.
func errCancelled(n rabbit.Names) error {
	return fmt.Errorf("%w: the queue was deleted or moved; if it is gone, run %s", errQueueGone, n.SetupCommand())
}

// session is one connection with its channels: one generation of delivery tags.
// When it ends, everything it has not acknowledged is the broker's again.
type session struct {
	// Set when it is opened.
	generation uint64
	opened     time.Time
	conn       *amqp.Connection
	socket     *rabbit.Socket
	channels   []*consumerChannel // guarded by mu; a change makes a new slice

	// The consumer's, which its sessions share.
	config      *Config
	stats       *Stats
	accounting  *Accounting
	log         *slog.Logger
	gate        *gate
	sizes       *sizes
	retries     Retries
	deadLetters *deadLetterer
	closing     func(of func(slot int) bool) // of windows
	pressed     func()                       // has the oldest windows closed; or nil

	ending  sync.Once
	reason  error         // set before ended is closed
	ended   chan struct{} // closed when a channel or consumer is lost
	watches sync.WaitGroup

	// Set by the goroutine of Run before the channels are read.
	prefetch atomic.Int64 // that the consumers were started with
	resizing atomic.Bool  // they are to be started with another; set by a reader

	delivering     chan struct{} // full while one of the readers delivers
	manyDeliveries sync.Once     // told of

	// Counted by settlers: each has its message, and whether a stop waits for it.
	bytes            atomic.Int64  // of the messages that have no final verdict
	toGiveBack       atomic.Int64  // messages with the verdict Unsettled: only a new channel brings them again
	unsettled        atomic.Int64  // handed over, or on their way to another queue
	waitingInProcess atomic.Int64  // waiting in process for their next attempt
	settledAll       chan struct{} // signalled when unsettled comes down to 0

	mu       sync.Mutex    // guards channels too
	requeued []*settler    // to be delivered once more; guarded by mu
	wake     chan struct{} // signalled when there are some
}

// open connects and opens the channels, with the prefetch still to be set.
func (c *Consumer) open(ctx context.Context) (*session, error) {
	conn, socket, err := c.dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, socket.Abort)()
	s := &session{
		generation: c.generation.Add(1), opened: time.Now(), conn: conn, socket: socket,
		config: &c.config, stats: &c.Stats, accounting: &c.Accounting, log: c.ports.Log, gate: c.gate, sizes: c.sizes,
		retries: c.ports.Retries, deadLetters: c.deadLetters,
		ended: make(chan struct{}), settledAll: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		delivering: make(chan struct{}, 1), closing: c.ports.CloseWindows, pressed: c.ports.Pressed,
	}
	if err := s.prepare(); err != nil {
		c.finish(ctx, s)
		return nil, err
	}
	// Alarms do not stop connections that only consume. A notification that is not
	// taken would stop the library's reader.
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 8))
	s.watches.Go(func() {
		for range blocked {
			continue
		}
	})
	if c.config.Lease > 0 {
		s.watches.Go(func() { s.watchLeases(c.config.Lease) })
	}
	c.Stats.Connects.Add(1)
	return s, nil
}

// prepare looks at the broker and opens the channels. Those of partitions are opened
// later, one for each.
func (s *session) prepare() error {
	if s.config.Partitions != nil {
		if s.config.Partitions.Only != nil {
			return nil
		}
		return partition.CheckVersion(s.conn.Properties)
	}
	if err := s.checkQueues(); err != nil {
		return err
	}
	channels := int(s.conn.Config.ChannelMax)
	if s.config.Ordered {
		channels = 1
	}
	for _, prefetch := range splitPrefetch(s.config.Prefetch, channels) {
		if _, err := s.openChannel(len(s.channels), s.config.Names.Queue, prefetch); err != nil {
			return rabbit.Fault("open a channel", err)
		}
	}
	for _, l := range s.channels {
		l.follow()
	}
	return nil
}

// live returns the open channels.
func (s *session) live() []*consumerChannel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.channels
}

// checkQueues refuses queues that lose messages: see [topology.Config.Check].
func (s *session) checkQueues(partitions ...int) error {
	if s.config.QueueType == "" {
		return nil
	}
	err := topology.Config{Names: s.config.Names, QueueType: s.config.QueueType, NoPriorities: s.config.NoPriorities}.Check(s.conn, partitions...)
	if errors.Is(err, topology.ErrNotAllowed) {
		s.log.Warn("the queue's arguments were not checked", slog.String("queue", s.config.Names.Queue),
			slog.String("hint", "give the user the configure permission on the queue (rabbitmqctl set_permissions), or declare it as "+s.config.Names.SetupCommand().String()+" does"))
		return nil
	}
	return err
}

// deliveriesWarned is the number of deliveries of one message that are told of:
// half of what quorum queues allow that were not made by [topology.Setup].
const deliveriesWarned = 10

// noteDeliveries tells, once a session, of a message that a quorum queue has
// delivered many times.
func (s *session) noteDeliveries(t *settler, count int64) {
	if count < deliveriesWarned {
		return
	}
	s.manyDeliveries.Do(func() {
		s.log.Warn("event delivered many times", slog.String("message_id", t.message.ID), slog.Int64("deliveries", count),
			slog.String("hint", "find out whether workers end or lose their connection repeatedly; at a policy's delivery-limit the broker moves the event to the dead letters"))
	})
}

// soon is how long a session lasts at most that its first messages end.
const soon = 5 * time.Second

// lost names the reason a working channel ended for. It is never the events'
// fault, and consuming is tried again. lasted is how long the session was open: a message
// that fits no frame ends one after the other, each at once.
func lost(err *amqp.Error, lasted time.Duration) error {
	if err.Code == amqp.PreconditionFailed {
		return fmt.Errorf("rabbitmq: the broker closed the channel: %w; if a message was held for longer than its "+
			"consumer_timeout (30 min by default), write sooner (is the store slow?) or raise that timeout", err)
	}
	if err.Code == amqp.FrameError && lasted < soon && err.Reason != rabbit.ErrSilent.Error() {
		return fmt.Errorf("rabbitmq: connection lost: %w; if this repeats, the headers of a message fill a frame, and the "+
			"broker adds one to them when it delivers it again: raise its frame_max (rabbitmqctl eval "+
			"'application:set_env(rabbit, frame_max, 262144).', and rabbitmq.conf)", err)
	}
	id := causes.Lost
	switch {
	case err.Code == amqp.ConnectionForced:
		id = causes.Stopping
	case err.Reason == rabbit.ErrSilent.Error():
		id = causes.NoAnswer
	}
	return causes.Explain(causes.RabbitMQ, id, fmt.Errorf("rabbitmq: connection lost: %w", err))
}

// explain returns the error of a session that is closed: what met a connection that was
// lost does not say why it was, and its channels do.
func (s *session) explain(err error) error {
	if _, ok := errors.AsType[*amqp.Error](err); ok && engine.KindOf(err) == engine.Transient && !errors.Is(s.reason, errClosed) {
		return s.reason
	}
	return err
}

// end invalidates all delivery tags of the session.
func (s *session) end(reason error) {
	s.ending.Do(func() {
		s.reason = reason
		for _, l := range s.live() {
			l.acks.refuse()
		}
		close(s.ended)
	})
}

// over reports whether the session has ended.
func (s *session) over() bool { return rabbit.IsClosed(s.ended) }

// cancelTimeout bounds how long a stop waits for a broker that does not answer.
const cancelTimeout = 3 * time.Second

// boundedContext returns a context that ends after d, and sooner where ctx ends: a stop
// cuts short what waits for the broker, but not in the middle of its answer.
func boundedContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	release := context.AfterFunc(ctx, func() { time.AfterFunc(cancelTimeout, cancel) })
	return bounded, func() {
		release()
		cancel()
	}
}

// bounded ends the connection unless release is called within the time for connecting.
func (s *session) bounded() (release func() bool) { return s.socket.Bound(s.config.Timing.Connect) }

// unacked returns how many messages were received and not acknowledged, whatever their
// verdict.
func (s *session) unacked() (n int) {
	for _, l := range s.live() {
		n += int(l.unacked.Load())
	}
	return n
}

// unsubscribe cancels the consumers at the broker.
func (s *session) unsubscribe() {
	for _, l := range s.live() {
		l.unsubscribe()
	}
}

// close sends the last acknowledgements and ends channels and connection in
// order, by force when ctx ends.
func (s *session) close(ctx context.Context) {
	// Acknowledgements too may be stuck in a socket that the broker does not read.
	defer context.AfterFunc(ctx, s.socket.Abort)()
	live := s.live()
	channels := make([]*amqp.Channel, len(live))
	for i, l := range live {
		l.acks.close()
		channels[i] = l.channel
	}
	rabbit.CloseBounded(ctx, s.conn, s.socket, channels...)
	s.end(errClosed)
	s.watches.Wait()
	for _, l := range live {
		s.stats.Unacked.Add(-l.unacked.Swap(0))
	}
}

// settled waits until everything handed over has its verdict, the session has
// ended, or ctx ends.
func (s *session) settled(ctx context.Context) error {
	for s.unsettled.Load() > 0 {
		select {
		case <-s.settledAll:
		case <-s.ended:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("rabbitmq: %d messages were not settled; the broker delivers them again: %w",
				s.unsettled.Load(), ctx.Err())
		}
	}
	return nil
}
