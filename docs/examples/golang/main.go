// Command golang sends one event to keyfold, to its HTTP API or to RabbitMQ. The
// RabbitMQ way is for a shop that has an outbox of its own; `keyfold setup` has
// declared the exchange.
//
//	KEYFOLD_URL=http://127.0.0.1:7080 KEYFOLD_TOKEN=... go run . http search 12345 'hiking boots'
//	RABBITMQ_DSN=amqp://guest:guest@localhost:5672/ go run . amqp product_view 12345 789
//
// Outside of keyfold's module it needs one of its own: go mod init shop && go mod tidy.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	way, event, err := arguments(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\nusage: go run . http search 12345 'hiking boots'\n       go run . amqp product_view 12345 789\n", err)
		os.Exit(2)
	}
	if err := way(context.Background(), event); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, event.MessageID)
}

// arguments reads a way and an event: WAY TYPE USER PHRASE-OR-PRODUCT.
func arguments(given []string) (way func(context.Context, *Event) error, event *Event, err error) {
	if len(given) != 4 {
		return nil, nil, fmt.Errorf("%d arguments instead of 4", len(given))
	}
	switch given[0] {
	case "http":
		way = overHTTP
	case "amqp":
		way = overAMQP
	default:
		return nil, nil, fmt.Errorf("%q is neither http nor amqp", given[0])
	}
	user, err := strconv.Atoi(given[2])
	if err != nil {
		return nil, nil, fmt.Errorf("the user's id: %w", err)
	}
	event, err = NewEvent(user, given[1], given[3], time.Now())
	if err != nil {
		return nil, nil, err
	}
	event.Metadata = map[string]any{"source": "golang"}
	return way, event, nil
}

func overHTTP(ctx context.Context, event *Event) error {
	api := NewAPI(cmp.Or(os.Getenv("KEYFOLD_URL"), "http://127.0.0.1:7080"), os.Getenv("KEYFOLD_TOKEN"))
	_, err := api.Send(ctx, event)
	return err
}

func overAMQP(ctx context.Context, event *Event) error {
	dsn := cmp.Or(os.Getenv("RABBITMQ_DSN"), "amqp://guest:guest@localhost:5672/")
	connection, err := amqp.DialConfig(dsn, amqp.Config{Properties: amqp.Table{"connection_name": "shop events"}})
	if err != nil {
		return err
	}
	defer connection.Close()
	return Publish(ctx, connection, event)
}
