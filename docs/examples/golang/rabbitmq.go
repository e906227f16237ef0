package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const exchange = "user_events"

// confirmTimeout is how long Publish waits for the broker.
const confirmTimeout = 5 * time.Second

// Publish publishes events and returns once the broker has them. After an error
// publish all of them again: those that came through count once.
func Publish(ctx context.Context, connection *amqp.Connection, events ...*Event) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	if err := channel.Confirm(false); err != nil {
		return err
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	// The broker also confirms a message that no queue takes, but returns it first.
	returned := channel.NotifyReturn(make(chan amqp.Return, len(events)))
	var confirms []*amqp.DeferredConfirmation
	for _, event := range events {
		message, err := publishing(event)
		if err != nil {
			return err
		}
		confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, exchange, "user.embedding."+event.Type, true, false, message)
		if err != nil {
			return err
		}
		confirms = append(confirms, confirm)
	}
	return await(ctx, confirms, returned, closed)
}

// await waits for the broker's answers.
func await(ctx context.Context, confirms []*amqp.DeferredConfirmation, returned <-chan amqp.Return, closed <-chan *amqp.Error) error {
	for _, confirm := range confirms {
		taken, err := confirm.WaitContext(ctx)
		if err != nil {
			return fmt.Errorf("no confirm: %w", err)
		}
		if !taken {
			return refused(closed)
		}
	}
	select {
	case r := <-returned:
		return fmt.Errorf("%s: %s (%s); run keyfold setup", r.MessageId, r.ReplyText, r.RoutingKey)
	default:
		return nil
	}
}

// refused returns why an event was not taken. A broker that closes the channel
// gives a reason, for instance that the exchange is missing.
func refused(closed <-chan *amqp.Error) error {
	select {
	case err := <-closed:
		if err != nil {
			return err
		}
	default:
	}
	return errors.New("the broker has not taken the event")
}

func publishing(event *Event) (amqp.Publishing, error) {
	body, err := json.Marshal(event)
	if err != nil {
		return amqp.Publishing{}, err
	}
	at, err := time.Parse(time.RFC3339, event.OccurredAt)
	return amqp.Publishing{
		ContentType:     "application/json",
		ContentEncoding: "utf-8",
		DeliveryMode:    amqp.Persistent,
		Priority:        5,
		MessageId:       event.MessageID,
		AppId:           "shop",
		Timestamp:       at,
		Body:            body,
	}, err
}
