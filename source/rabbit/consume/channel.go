package consume

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/source/rabbit"
)

// A consumer's prefetch is divided among channels: the broker looks for an
// acknowledged message in the list of all that its channel holds, so that
// acknowledging out of order, which windows bring with them, costs in proportion
// to the channel's share. The broker deals messages out to channels in turn, so
// that side by side they overtake each other: [Config.Ordered] has one only.
const (
	channelPrefetch = 224
	maxChannels     = 18
)

// splitPrefetch divides a prefetch among as many channels as it deserves and the
// broker allows, at least one.
func splitPrefetch(prefetch, allowed int) []int {
	all := make([]int, max(1, min(prefetch/channelPrefetch, maxChannels, allowed)))
	for i := range all {
		all[i] = prefetch / len(all)
		if i < prefetch%len(all) {
			all[i]++
		}
	}
	return all
}

// consumerChannel is one channel of a session with its consumer and acknowledgements.
type consumerChannel struct {
	session    *session
	index      int
	queue      string
	prefetch   int // the channel's part of [Config.Prefetch]; that of a partition is in its [partition.Desired]
	channel    *amqp.Channel
	acks       *acks
	unacked    atomic.Int64 // received and not acknowledged
	ackedTotal atomic.Int64
	consumers  atomic.Int64 // so far
	inForce    atomic.Int64 // the prefetch of its consumers; 0 where another worker's come first
	leases     leases

	// Only used by the goroutine that starts and stops reading.
	main, more subscription
	last       uint64 // delivery tag received last
	count      int    // received since the session looked at their sizes
	bytes      int64  // of these

	// previousTags is the last tag of earlier consumers, 0 once all up to it are acknowledged.
	previousTags atomic.Uint64
	// change is signalled when a part of the prefetch that is not in force may be used, and
	// when a partition is to be consumed otherwise.
	change chan struct{}

	// partition is nil where the channel is not that of one.
	partition *partitionConsumer
	next      subscription // follows main, which was cancelled and is read to its end
	left      atomic.Bool  // closed here, while the session goes on

	// outside takes the settlements of messages that came by no channel: see [Outside]. nil:
	// they are acknowledged.
	outside func(t *settler)
}

// settle acknowledges a message, and reports whether that is not too late.
func (l *consumerChannel) settle(t *settler) bool {
	if l.outside == nil {
		return l.acks.settle(t.tag, t.end)
	}
	if l.session.over() {
		return false
	}
	l.outside(t)
	return true
}

// subscription is a consumer at the broker: live while it has a tag, and with
// something to read until its deliveries are nil.
type subscription struct {
	tag        string
	prefetch   int
	deliveries <-chan amqp.Delivery
}

// openChannel opens the channel of that index for a queue.
func (s *session) openChannel(index int, queue string, prefetch int) (*consumerChannel, error) {
	channel, err := s.conn.Channel()
	if err != nil {
		return nil, err
	}
	l := &consumerChannel{session: s, index: index, queue: queue, prefetch: prefetch, channel: channel, change: make(chan struct{}, 1)}
	l.acks = &acks{
		channel: channel, cork: s.socket.Cork, uncork: s.socket.Uncork,
		interval: ackInterval, maxAckDelay: maxAckDelay,
		sent: l.acked, accounting: s.accounting,
	}
	l.acks.limit(prefetch)
	l.acks.start()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels = append(slices.Clone(s.channels), l)
	return l, nil
}

// follow starts watching the channel, once the session knows all its channels.
func (l *consumerChannel) follow() { l.session.watch(l.channel, &l.left) }

// watch starts watching a channel that the session cannot do without, unless it has left it.
func (s *session) watch(channel *amqp.Channel, left *atomic.Bool) {
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	cancelled := channel.NotifyCancel(make(chan string, 8))
	s.watches.Go(func() { s.drain(closed, cancelled, left) })
}

// drain drains the library's notifications for as long as there are any, and
// ends the session with its first channel or consumer.
func (s *session) drain(closed <-chan *amqp.Error, cancelled <-chan string, left *atomic.Bool) {
	for closed != nil || cancelled != nil {
		select {
		case err, ok := <-closed:
			if ok {
				s.end(lost(err, time.Since(s.opened)))
				continue
			}
			closed = nil
			if left.Load() {
				continue
			}
			s.end(errors.New("rabbitmq: the channel was closed"))
		case _, ok := <-cancelled:
			if !ok {
				cancelled = nil
				continue
			}
			s.stats.Cancelled.Add(1)
			s.end(errCancelled(s.config.Names))
		}
	}
}

// subscribe starts a consumer with as much prefetch as the messages still held
// leave; settled ones are acknowledged in a moment and take up none. The rest is for a
// second one: see [consumerChannel.refill].
func (l *consumerChannel) subscribe(ctx context.Context) (err error) {
	prefetch := l.share()
	held := min(l.acks.unsettled(), prefetch-1)
	l.acks.renew(l.last)
	l.more = subscription{}
	if l.main, err = l.consume(ctx, prefetch-held, nil); err != nil {
		return err
	}
	l.enforce()
	if held == 0 {
		l.previousTags.Store(0)
		return nil
	}
	l.previousTags.Store(l.last)
	l.signalPreviousAcked() // they may have been acknowledged meanwhile
	return nil
}

// share is the channel's part of the session's prefetch.
func (l *consumerChannel) share() int {
	return max(1, l.prefetch*int(l.session.prefetch.Load())/l.session.config.Prefetch)
}

// refill starts a second consumer for what is missing of the channel's share: more messages
// fit than did at first, or those of earlier consumers are acknowledged, on top of which it
// would come. Where there is a second one already, all start anew. So does an ordered
// consumer, which a second one could overtake, where much is missing.
func (l *consumerChannel) refill(ctx context.Context) (err error) {
	previous := l.previousTags.Load() > 0
	if previous && !l.previousIsAcked() {
		return nil // and signalled again
	}
	l.previousTags.Store(0)
	missing, s := l.share()-l.main.prefetch-l.more.prefetch, l.session
	switch {
	case missing <= 0 || l.main.tag == "":
		return nil
	case s.config.Ordered:
		if previous && missing > l.share()/4 {
			s.startAnew()
		}
		return nil
	case l.more.tag != "":
		s.startAnew()
		return nil
	}
	if l.more, err = l.consume(ctx, missing, nil); err == nil {
		l.enforce()
	}
	return err
}

// enforce notes the prefetch of the consumers.
func (l *consumerChannel) enforce() {
	prefetch := l.main.prefetch + l.more.prefetch
	l.inForce.Store(int64(prefetch))
	l.acks.limit(prefetch)
}

// signalPreviousAcked wakes the reader where the rest of the prefetch may be used. Any goroutine may call it.
func (l *consumerChannel) signalPreviousAcked() {
	if l.previousIsAcked() {
		signal(l.change)
	}
}

func (l *consumerChannel) previousIsAcked() bool {
	earlier := l.previousTags.Load()
	return earlier > 0 && l.acks.below.Load() >= earlier
}

// room returns how many more messages the broker may deliver than are in hand.
func (l *consumerChannel) room() int64 { return max(0, l.inForce.Load()-l.acks.open.Load()) }

func (l *consumerChannel) consume(ctx context.Context, prefetch int, arguments amqp.Table) (subscription, error) {
	s := l.session
	config := s.config
	ctx, cancel := boundedContext(ctx, config.Timing.Connect)
	defer cancel()
	defer s.socket.BoundBy(ctx)()
	if err := l.channel.Qos(prefetch, 0, false); err != nil {
		return subscription{}, config.Names.Fault("set the prefetch", err)
	}
	tag := config.Identity.Tag(s.generation, l.index, int(l.consumers.Add(1)))
	deliveries, err := l.channel.Consume(l.queue, tag, false, false, false, false, arguments)
	if err != nil {
		return subscription{}, config.Names.Fault("consume from queue "+l.queue, err)
	}
	return subscription{tag, prefetch, deliveries}, nil
}

// unsubscribe cancels the consumers at the broker; what the library has
// buffered is still to be read.
func (l *consumerChannel) unsubscribe() {
	// The library waits for answers without a limit.
	defer time.AfterFunc(cancelTimeout, l.session.socket.Abort).Stop()
	l.inForce.Store(0)
	for _, c := range []*subscription{&l.main, &l.more} {
		if c.tag != "" && !l.session.over() {
			_ = l.channel.Cancel(c.tag, false)
			c.tag = ""
		}
	}
}

// replace has a new consumer follow the main one, which is cancelled: its messages stay
// this channel's, and are read before those of the new one. Where the queue has a single
// active consumer, the new one is next in line unless another has a higher priority.
func (l *consumerChannel) replace(ctx context.Context, prefetch int, arguments amqp.Table) (err error) {
	if l.next, err = l.consume(ctx, prefetch, arguments); err != nil {
		return err
	}
	// As long as the new one may take: many workers that start on a backlog keep the broker
	// busy for seconds, and a connection that ends adds to it.
	ctx, cancel := boundedContext(ctx, l.session.config.Timing.Connect)
	defer cancel()
	defer context.AfterFunc(ctx, l.session.socket.Abort)()
	if err = l.channel.Cancel(l.main.tag, false); err != nil {
		err = rabbit.Fault("cancel a consumer", err)
	}
	l.main.tag = ""
	l.acks.limit(prefetch)
	l.acks.renew(l.last)
	return err
}

// leave closes the channel while the session goes on: the broker takes back what was
// not acknowledged.
func (l *consumerChannel) leave(ctx context.Context) {
	s := l.session
	l.left.Store(true)
	s.mu.Lock()
	s.channels = slices.DeleteFunc(slices.Clone(s.channels), func(other *consumerChannel) bool { return other == l })
	s.mu.Unlock()
	ctx, cancel := boundedContext(ctx, s.config.Timing.Connect)
	defer cancel()
	defer context.AfterFunc(ctx, s.socket.Abort)()
	l.acks.close()
	_ = l.channel.Close()
	s.stats.Unacked.Add(-l.unacked.Swap(0))
}

// acked is told what was acknowledged.
func (l *consumerChannel) acked(messages, frames int) {
	stats := l.session.stats
	stats.Acked.Add(int64(messages))
	stats.AckFrames.Add(int64(frames))
	stats.Unacked.Add(-int64(messages))
	l.unacked.Add(-int64(messages))
	l.ackedTotal.Add(int64(messages))
	l.signalPreviousAcked()
}
