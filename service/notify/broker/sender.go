package broker

import (
	"context"
	"errors"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/senders/message"
	"keyfold/source/rabbit"
)

// Sender publishes dispatches. It may be used by several goroutines.
type Sender struct {
	// Now is the clock by which dispatches expire; default the machine's. It is set
	// before the first Send.
	Now func() engine.Millis
	// Links are those of the messages; nil: they have none. It is set before the first Send.
	Links message.Linker

	publisher *rabbit.Publisher
	timeout   time.Duration
}

// NewSender returns a sender. timeout bounds one Send: the broker takes no messages
// while an alarm is on.
func NewSender(p *rabbit.Publisher, timeout time.Duration) *Sender {
	return &Sender{Now: engine.Now, publisher: p, timeout: timeout}
}

// ReasonNoQueue is the reason of a configuration error: no queue of the senders takes
// the dispatch.
const ReasonNoQueue = "no_dispatch_queue"

var errExpired = errors.New("rabbitmq: the dispatch has expired and was not published")

// Send publishes dispatches and waits for the broker to confirm each. The answer is
// aligned with them: nil once a quorum queue keeps the message, a configuration error
// where no queue takes it, else the errors of [rabbit.Publisher.Publish]. A dispatch
// that has expired is not sent and has a transient error.
func (s *Sender) Send(ctx context.Context, dispatches []notify.Dispatch) []error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	errs := make([]error, len(dispatches))
	messages, positions := make([]rabbit.Message, 0, len(dispatches)), make([]int, 0, len(dispatches))
	now := s.Now()
	for i := range dispatches {
		m, err := messageOf(&dispatches[i], s.Links, now)
		if err != nil {
			errs[i] = err
			continue
		}
		messages, positions = append(messages, m), append(positions, i)
	}
	for i, err := range publish(ctx, s.publisher, ReasonNoQueue, messages) {
		errs[positions[i]] = err
	}
	return errs
}

// messageOf returns the message of a dispatch. Senders know it by the dispatch's id,
// which stays the same if it is sent again.
func messageOf(d *notify.Dispatch, links message.Linker, now engine.Millis) (rabbit.Message, error) {
	m, err := message.Of(d, links)
	if err != nil {
		return rabbit.Message{}, err
	}
	body, err := m.Append(nil)
	if err != nil {
		return rabbit.Message{}, err
	}
	expiration, expired := expirationOf(d, now)
	if expired {
		return rabbit.Message{}, errExpired
	}
	return rabbit.Message{
		Exchange: DispatchExchange, RoutingKey: dispatchKeyPrefix + channelOf(d, &m) + "." + m.EventType,
		ID: d.ID.String(), Timestamp: d.Records[0].DecidedAt.Time(), Expiration: expiration, Body: body,
	}, nil
}

// expirationOf returns how long the broker keeps a dispatch: until the last of its
// events expires, 0 for ever. The senders leave out those items of a digest that have
// expired before.
func expirationOf(d *notify.Dispatch, now engine.Millis) (left time.Duration, expired bool) {
	last := engine.Millis(0)
	for _, e := range d.Events {
		if e.ExpiresAt == 0 {
			return 0, false
		}
		last = max(last, e.ExpiresAt)
	}
	const longest = engine.Millis(rabbit.MaxExpiration / time.Millisecond)
	if last-now > longest {
		return 0, false // the broker cannot count to it, and a duration of centuries overflows
	}
	return time.Duration(last-now) * time.Millisecond, last <= now
}

// channelOf returns the channel whose senders get a message: the first one that its
// records allow. A record that names none, as one that an earlier version stored
// might, goes to the channel that its event asked for first: each event has one.
func channelOf(d *notify.Dispatch, m *message.Message) string {
	if len(m.Channels) > 0 {
		return m.Channels[0]
	}
	for _, e := range d.Events {
		if len(e.Channels) > 0 {
			return e.Channels[0].String()
		}
	}
	return notify.InApp.String()
}

var _ notify.Dispatcher = (*Sender)(nil)
