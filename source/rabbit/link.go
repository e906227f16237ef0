package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/causes"
)

// maxInFlight is how many messages may be written and not yet confirmed on one
// link. It is also the room for returns, of which each message has one at most,
// so that the library's reader never waits for us.
const maxInFlight = 2048

// ErrNoExchange: a message was published to an exchange that does not exist. The broker
// closes the channel for it, so that the fate of messages beside it is unknown.
var ErrNoExchange = errors.New("the broker has no such exchange")

// errLinkLost: the connection ended before the message was written.
var errLinkLost = errors.New("rabbitmq: publish: connection lost before the message was written")

// link is one publishing connection with its channel in confirm mode.
type link struct {
	conn    *amqp.Connection
	channel *amqp.Channel
	socket  *Socket
	stats   *PublisherStats

	tokens chan struct{} // one per message in flight
	ended  chan struct{} // closed when the connection has ended

	mu        sync.Mutex
	unblocked chan struct{} // closed while no alarm is on
	reason    string        // of the alarm
	returns   chan amqp.Return
	returned  map[address][]amqp.Return // drained and not yet asked for

	cause *amqp.Error // that the channel ended with; set before ended is closed
}

// openLink connects and enters confirm mode.
func openLink(ctx context.Context, d Dialer, stats *PublisherStats) (*link, error) {
	conn, s, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{
		conn: conn, socket: s, stats: stats,
		tokens:    make(chan struct{}, maxInFlight),
		ended:     make(chan struct{}),
		unblocked: make(chan struct{}),
		returned:  map[address][]amqp.Return{},
	}
	close(l.unblocked)
	defer s.BoundBy(ctx)()
	if err := l.openChannel(); err != nil {
		s.Abort()
		_ = conn.Close()
		return nil, Fault("open a confirming channel", err)
	}
	stats.Connects.Add(1)
	go l.watch(conn.NotifyBlocked(make(chan amqp.Blocking, 16)), l.channel.NotifyClose(make(chan *amqp.Error, 1)))
	return l, nil
}

func (l *link) openChannel() (err error) {
	if l.channel, err = l.conn.Channel(); err != nil {
		return err
	}
	l.returns = l.channel.NotifyReturn(make(chan amqp.Return, maxInFlight))
	return l.channel.Confirm(false)
}

// watch follows alarms until channel or connection end, then ends both.
func (l *link) watch(blockings <-chan amqp.Blocking, closed <-chan *amqp.Error) {
	defer close(l.ended)
	for {
		select {
		case b, ok := <-blockings:
			if !ok {
				blockings = nil
				continue
			}
			l.setBlocked(b)
		case cause, broken := <-closed:
			l.cause = cause
			// Without its channel the connection is of no use. Nothing waits
			// for an answer: what is in flight is unknown already.
			if broken {
				l.socket.Abort()
				_ = l.conn.Close()
			}
			l.setBlocked(amqp.Blocking{})
			return
		}
	}
}

func (l *link) setBlocked(b amqp.Blocking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch blocked := !IsClosed(l.unblocked); {
	case b.Active && !blocked:
		l.unblocked, l.reason = make(chan struct{}), b.Reason
		l.stats.alarm.Store(&b.Reason)
		l.stats.Blocked.Add(1)
	case !b.Active && blocked:
		close(l.unblocked)
		l.stats.Blocked.Add(-1)
	}
}

// open reports whether no alarm stops publishing.
func (l *link) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return IsClosed(l.unblocked)
}

// free waits until no alarm stops publishing.
func (l *link) free(ctx context.Context) error {
	l.mu.Lock()
	unblocked, reason := l.unblocked, l.reason
	l.mu.Unlock()
	if IsClosed(unblocked) {
		return nil
	}
	select {
	case <-unblocked:
		return nil
	case <-l.ended:
		return errLinkLost
	case <-ctx.Done():
		return causes.Blocked(reason, fmt.Errorf("rabbitmq: publish: %w", ctx.Err()))
	}
}

// orBlocked says of what did not come in time that an alarm is on: the broker tells a
// connection when it publishes, so that the message which met the alarm is written already.
func (l *link) orBlocked(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if IsClosed(l.unblocked) {
		return err
	}
	return causes.Blocked(l.reason, err)
}

// address is what a returned message is known by.
type address struct{ exchange, key, id string }

// takeReturn tells whether the message of an address came back, and how. It is asked
// after the confirm: the library hands a return over before it completes the
// confirm that follows it, so the return is in the channel or was drained.
func (l *link) takeReturn(to address) (amqp.Return, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		select {
		case r, ok := <-l.returns:
			if ok {
				from := address{r.Exchange, r.RoutingKey, r.MessageId}
				l.returned[from] = append(l.returned[from], r)
				continue
			}
			l.returns = nil
		default:
		}
		break
	}
	all := l.returned[to]
	switch len(all) {
	case 0:
		return amqp.Return{}, false
	case 1:
		delete(l.returned, to)
	default:
		l.returned[to] = all[1:]
	}
	return all[0], true
}

func (l *link) alive() bool { return !IsClosed(l.ended) && !l.channel.IsClosed() }

// close ends the link in order, by force when ctx ends.
func (l *link) close(ctx context.Context) {
	CloseBounded(ctx, l.conn, l.socket, l.channel)
	<-l.ended
}

// IsClosed reports whether a channel that nothing is sent to is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
