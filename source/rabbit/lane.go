package rabbit

import (
	"errors"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A consumer's prefetch is divided among channels: the broker looks for an
// acknowledged message in the list of all that its channel holds, so that
// acknowledging out of order, which windows bring with them, costs in proportion
// to the channel's share. The broker deals messages out to channels in turn, so
// that side by side they overtake each other: [Config.Ordered] has one only.
const (
	laneShare = 224
	maxLanes  = 16
)

// shares divides a prefetch among as many channels as it deserves and the
// broker allows, at least one.
func shares(prefetch, allowed int) []int {
	all := make([]int, max(1, min(prefetch/laneShare, maxLanes, allowed)))
	for i := range all {
		all[i] = prefetch / len(all)
		if i < prefetch%len(all) {
			all[i]++
		}
	}
	return all
}

// lane is one channel of a session with its consumer and acknowledgements.
type lane struct {
	session  *session
	index    int
	prefetch int
	channel  *amqp.Channel
	acks     *acks
	unacked  atomic.Int64 // received and not acknowledged

	// Only used by the goroutine that starts and stops reading.
	deliveries <-chan amqp.Delivery
	tags       int    // consumers so far
	tag        string // of the live consumer
}

func (s *session) openLane(prefetch int) (*lane, error) {
	channel, err := s.conn.Channel()
	if err != nil {
		return nil, err
	}
	config := &s.consumer.config
	l := &lane{session: s, index: len(s.lanes), prefetch: prefetch, channel: channel}
	l.acks = &acks{
		channel: channel, cork: s.socket.cork, uncork: s.socket.uncork,
		interval: config.ackInterval(), lag: config.ackLag(),
		full: min(256, max(1, prefetch/4)), spare: prefetch / 8,
		sent: l.acked,
	}
	l.acks.start()
	return l, nil
}

// follow starts watching the channel, once the session knows all its lanes.
func (l *lane) follow() {
	closed := l.channel.NotifyClose(make(chan *amqp.Error, 1))
	cancelled := l.channel.NotifyCancel(make(chan string, 8))
	l.session.watches.Go(func() { l.watch(closed, cancelled) })
}

// watch drains the library's notifications for as long as there are any, and
// ends the session with its first channel or consumer.
func (l *lane) watch(closed <-chan *amqp.Error, cancelled <-chan string) {
	for closed != nil || cancelled != nil {
		select {
		case err, ok := <-closed:
			if ok {
				l.session.end(lost(err))
				continue
			}
			closed = nil
			l.session.end(errors.New("rabbitmq: the channel was closed"))
		case _, ok := <-cancelled:
			if !ok {
				cancelled = nil
				continue
			}
			l.session.consumer.Stats.Cancelled.Add(1)
			l.session.end(errCancelled)
		}
	}
}

// subscribe starts a consumer with as much prefetch as the messages still held
// leave.
func (l *lane) subscribe() error {
	s := l.session
	config := &s.consumer.config
	defer s.within(config.Timing.Connect)()
	if err := l.channel.Qos(max(1, l.prefetch-int(l.unacked.Load())), 0, false); err != nil {
		return fault("set the prefetch", err)
	}
	l.tags++
	tag := config.Identity.tag(s.generation, l.index, l.tags)
	deliveries, err := l.channel.Consume(config.Names.Queue, tag, false, false, false, false, nil)
	if err != nil {
		return fault("consume from queue "+config.Names.Queue, err)
	}
	l.deliveries, l.tag = deliveries, tag
	return nil
}

// unsubscribe cancels the consumer at the broker; what the library has
// buffered is still to be read.
func (l *lane) unsubscribe() {
	if l.session.over() || l.tag == "" {
		return
	}
	defer l.session.within(cancelTimeout)()
	_ = l.channel.Cancel(l.tag, false)
	l.tag = ""
}

// acked is told what was acknowledged.
func (l *lane) acked(messages, frames int) {
	stats := &l.session.consumer.Stats
	stats.Acked.Add(int64(messages))
	stats.AckFrames.Add(int64(frames))
	stats.Unacked.Add(-int64(messages))
	l.unacked.Add(-int64(messages))
}
