package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/source/rabbit"
)

// ReasonNoEventQueue is the reason of a configuration error: no worker's queue takes
// the event.
const ReasonNoEventQueue = "no_event_queue"

// Publisher publishes events for the workers. It may be used by several goroutines.
type Publisher struct{ publisher *rabbit.Publisher }

// NewPublisher returns a publisher of events.
func NewPublisher(p *rabbit.Publisher) *Publisher { return &Publisher{p} }

// Publish waits for the broker to confirm each event. The answer is aligned with them:
// nil once a queue keeps the event, a configuration error where none takes it or the
// exchange is missing, else the errors of [rabbit.Publisher.Publish]. ctx is to have a
// deadline.
func (p *Publisher) Publish(ctx context.Context, events []*notify.Notification) []error {
	messages := make([]rabbit.Message, len(events))
	for i, e := range events {
		messages[i] = EventMessage(e)
	}
	return publish(ctx, p.publisher, ReasonNoEventQueue, messages)
}

// publish publishes messages of one exchange. Its errors are those of
// [rabbit.Publisher.Publish], but for a message that no queue takes and for a missing
// exchange: these are configuration errors of the reason. Their texts do not hold those of
// source/rabbit, which name another command as the cure.
func publish(ctx context.Context, p *rabbit.Publisher, reason string, messages []rabbit.Message) []error {
	answers := p.Publish(ctx, messages)
	noExchange := slices.ContainsFunc(answers, func(err error) bool { return errors.Is(err, rabbit.ErrNoExchange) })
	for i, err := range answers {
		m := &messages[i]
		switch {
		case errors.Is(err, engine.ErrUnroutable):
			answers[i] = engine.ConfigurationError(reason, fmt.Errorf(
				"rabbitmq: no queue takes a message with key %q from exchange %q: run %s", m.RoutingKey, m.Exchange, setupCommand))
		case err != nil && noExchange:
			answers[i] = engine.ConfigurationError(reason, fmt.Errorf(
				"rabbitmq: there is no exchange %q: run %s", m.Exchange, setupCommand))
		}
	}
	return answers
}

// Check looks whether the broker has the queues of events, on a connection of its own.
// Where one is missing, the configuration error names the cure.
func Check(ctx context.Context, dsn, role string) error {
	c, err := rabbit.OpenChannel(ctx, dsn, role, "check")
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect(ctx) }() // it has nothing to add
	return c.During(ctx, func() error {
		for _, names := range []rabbit.Names{Urgent(), Bulk()} {
			if _, err := c.Ready(names, names.Queue); err != nil {
				return err
			}
		}
		return nil
	})
}
