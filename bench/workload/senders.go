package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/proof/notifyoracle"
	"keyfold/service/notify/broker"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/senders/message"
)

// Senders stands in for the programs that send push messages, e-mail and SMS: it consumes every
// dispatch, acknowledges it and records it. It connects again after the broker was away.
type Senders struct {
	dsn    string
	each   func(message.Message, time.Time)
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	sent     []notifyoracle.Sent
	faults   []string
	received int
}

// Queues are the queues that notification workers consume, urgent and bulk.
func Queues() []string { return []string{broker.Urgent().Queue, broker.Bulk().Queue} }

// DispatchQueues are the senders' queues.
func DispatchQueues() (names []string) {
	for _, c := range []notify.Channel{notify.Push, notify.Email, notify.SMS, notify.InApp} {
		names = append(names, broker.DispatchQueue(c))
	}
	return names
}

// Receive begins to take dispatches of all channels. each, where set, gets every one
// with the time at which it came.
func Receive(dsn string, each func(message.Message, time.Time)) *Senders {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Senders{dsn: dsn, each: each, cancel: cancel}
	s.work.Go(func() {
		for ctx.Err() == nil {
			_ = s.session(ctx) // the broker is away for now
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return s
}

// session takes dispatches until the connection ends.
func (s *Senders) session(ctx context.Context) error {
	conn, err := amqp.Dial(s.dsn)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now().Add(5 * time.Second)) })()
	defer conn.Close()
	var readers sync.WaitGroup
	defer readers.Wait()
	for _, queue := range DispatchQueues() {
		channel, err := conn.Channel()
		if err == nil {
			err = channel.Qos(200, 0, false)
		}
		var deliveries <-chan amqp.Delivery
		if err == nil {
			deliveries, err = channel.Consume(queue, "", false, false, false, false, nil)
		}
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		readers.Go(func() {
			for d := range deliveries {
				s.take(&d, time.Now())
				_ = d.Ack(false) // it comes again
			}
		})
	}
	readers.Wait()
	return nil
}

func (s *Senders) take(d *amqp.Delivery, now time.Time) {
	var m message.Message
	err := json.Unmarshal(d.Body, &m)
	s.mu.Lock()
	s.received++
	switch {
	case err != nil:
		s.faults = append(s.faults, fmt.Sprintf("dispatch %s is no message: %v", d.MessageId, err))
	case d.MessageId != m.DispatchID.String():
		s.faults = append(s.faults, fmt.Sprintf("dispatch %s has the message_id %s", m.DispatchID, d.MessageId))
	default:
		s.sent = append(s.sent, notifyoracle.Sent{ID: m.DispatchID, Events: m.EventIDs, At: atOf(&m, now)})
	}
	s.mu.Unlock()
	if err == nil && s.each != nil {
		s.each(m, now)
	}
}

// onTheWay is how long a dispatch may be on its way from the worker's look at the clock
// to a sender, while the broker is killed and started.
const onTheWay = engine.Millis(60_000)

// atOf estimates when the worker handed a dispatch over. The broker may have kept it for a while:
// one that came less than onTheWay after an event of it expired is taken as handed over just
// before that, so a dispatch of an expired event shows only when it is later.
func atOf(m *message.Message, now time.Time) engine.Millis {
	at := engine.MillisOf(now)
	expiries := []*string{m.ExpiresAt}
	if m.Digest != nil {
		for _, item := range m.Digest.Items {
			expiries = append(expiries, item.ExpiresAt)
		}
	}
	latest := at
	for _, text := range expiries {
		if text == nil {
			continue
		}
		expires, err := time.Parse(time.RFC3339, *text)
		if late := at - engine.MillisOf(expires); err == nil && late >= 0 && late < onTheWay {
			latest = min(latest, engine.MillisOf(expires)-1)
		}
	}
	return latest
}

// Received returns how many dispatches came, repeats included.
func (s *Senders) Received() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

// Sent returns what came so far, and what was wrong with it.
func (s *Senders) Sent() ([]notifyoracle.Sent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, f := range s.faults {
		errs = append(errs, errors.New(f))
	}
	return s.sent, errors.Join(errs...)
}

// Close ends the reception.
func (s *Senders) Close() {
	s.cancel()
	s.work.Wait()
}
