package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/report"
	"keyfold/source/rabbit"
	"keyfold/source/stream/writer"
)

// Pauses between what is published together, between looks at the queue, and between reads
// of the profiles while events are published: ids stay in a profile for much longer.
const (
	publishEvery = 20 * time.Millisecond
	lookEvery    = time.Second
	readEvery    = 10 * time.Second
)

// mostTogether is how many events are published together.
const mostTogether = 1000

// publish publishes each event when it is due, with those that are due within the same pause.
func (m *measurement) publish(r *report.Report, p publisher, bar *cli.Progress) error {
	began := time.Now()
	looked, read := began, began
	for i := 0; i < m.events(); {
		select {
		case <-m.app.Ctx.Done():
			return m.app.Ctx.Err()
		case <-time.After(publishEvery):
		}
		messages, err := m.batch(began, i)
		if err != nil {
			return err
		}
		if err := m.hand(p, messages); err != nil {
			return app.BrokerUnreached(err)
		}
		i += len(messages)
		bar.At(i)
		if time.Since(looked) >= lookEvery {
			looked = time.Now()
			if err := m.look(r); err != nil {
				return err
			}
		}
		if time.Since(read) >= readEvery {
			read = time.Now()
			if err := m.read(); err != nil {
				return err
			}
		}
	}
	return nil
}

// publisher publishes events: a [rabbit.Publisher], or [writer.Events].
type publisher interface {
	Publish(ctx context.Context, messages []rabbit.Message) []error
}

// connected publishes to streams where RABBITMQ_STREAMS is set, and says so in the report.
func (m *measurement) connected(r *report.Report, do func(publisher) error) error {
	if m.app.Queues.Streams == 0 {
		r.Note("published by AMQP 0.9.1")
		return m.app.WithPublisher("bench", func(p *rabbit.Publisher) error { return do(p) })
	}
	r.Note("published by the stream protocol")
	w := writer.New(writer.Config{Client: m.app.StreamsClient(), Names: rabbit.DefaultNames()}, m.app.Log)
	return errors.Join(do(writer.NewEvents(w)), m.app.ClosePublisher(w.Close))
}

// patience is how long a broker that is away is waited for.
const patience = 2 * time.Minute

// hand publishes until the broker has all messages. One that it has already comes again with
// the same id.
func (m *measurement) hand(p publisher, messages []rabbit.Message) error {
	ctx, cancel := context.WithTimeout(m.app.Ctx, patience)
	defer cancel()
	for {
		var left []rabbit.Message
		var reason error
		for i, err := range p.Publish(ctx, messages) {
			switch {
			case err == nil:
			case errors.Is(err, engine.ErrUnroutable), engine.KindOf(err) != engine.Transient:
				return err
			default:
				left, reason = append(left, messages[i]), err
			}
		}
		if len(left) == 0 || !backoff.Sleep(ctx, publishEvery) {
			return reason
		}
		messages, m.again = left, m.again+len(left)
	}
}

// batch makes the events that are due, from the i-th on: no more than are soon confirmed, so
// that the queue and the profiles are looked at though the broker takes fewer than the rate.
func (m *measurement) batch(began time.Time, i int) (messages []rabbit.Message, err error) {
	for ; i < m.events() && len(messages) < mostTogether; i++ {
		due := began.Add(time.Duration(float64(i) / float64(m.Rate) * float64(time.Second)))
		if due.After(time.Now()) {
			break
		}
		message, err := m.next(due)
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
	return messages, nil
}

// eventTypes are those of the events, by how often they come, with the shop's own that are of
// products.
func eventTypes() []profile.EventType {
	types := []profile.EventType{profile.ProductView, profile.ProductView, profile.ProductView, profile.ProductClick, profile.ProductPurchase}
	for _, t := range profile.EventTypes() {
		if t.Own() && !t.HasPhrase() {
			types = append(types, t)
		}
	}
	return types
}

// next makes an event of a random user.
func (m *measurement) next(due time.Time) (rabbit.Message, error) {
	i := rand.IntN(m.Users)
	user := m.first + int32(i)
	body := fmt.Appendf(nil, `{"user_id":%d,"event_type":%q,"product_id":%d,"occurred_at":%q,"message_id":%q}`,
		user, m.types[rand.IntN(len(m.types))], m.products[rand.IntN(len(m.products))], due.UTC().Format("2006-01-02T15:04:05.000Z"), fmt.Sprintf("%s%s-%d-%d", ids, m.mark, user, m.counts[i]))
	m.counts[i]++
	e, err := profile.ParseEvent(body, time.Now())
	if err != nil {
		return rabbit.Message{}, err
	}
	m.due[e.Digest.ID()] = due
	switch names := rabbit.DefaultNames(); {
	case m.app.Queues.Streams > 0:
		return names.StreamMessage(body, &e), nil
	case m.partitions > 0:
		return names.SlotMessage(body, &e), nil
	default:
		return names.EventMessage(body, &e), nil
	}
}

// ids is what the message ids begin with. They need not be UUIDs.
const ids = "bench-"
