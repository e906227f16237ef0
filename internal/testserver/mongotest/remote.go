package mongotest

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// controlApp is the application name of clients that no fault touches.
const controlApp = "mongotest control"

// Remote controls a server in another process, over connections of its own that
// no fault touches. It may be used by several goroutines.
type Remote struct {
	*Controls
	client *mongo.Client
}

// Dial connects to a server's address. Dial before injecting faults that close
// or refuse connections.
func Dial(ctx context.Context, address string) (*Remote, error) {
	client, err := dial("mongodb://"+address+"/?directConnection=true", controlApp)
	if err != nil {
		return nil, fmt.Errorf("mongotest: %w", err)
	}
	r := &Remote{client: client}
	r.Controls = &Controls{do: r.send}
	if _, err := r.do(order{Action: "stats"}); err != nil {
		return nil, errors.Join(err, client.Disconnect(ctx))
	}
	return r, nil
}

// Primary reports whether the server at an address calls itself a writable primary.
func Primary(ctx context.Context, address string) (bool, error) {
	client, err := dial("mongodb://"+address+"/?directConnection=true", controlApp)
	if err != nil {
		return false, fmt.Errorf("mongotest: %w", err)
	}
	var answer struct {
		Primary bool `bson:"isWritablePrimary"`
	}
	err = client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&answer)
	return answer.Primary, errors.Join(err, client.Disconnect(ctx))
}

// Close closes the connections. What was injected stays in force.
func (r *Remote) Close() error { return r.client.Disconnect(context.Background()) }

func (r *Remote) send(o order) (answer result, err error) {
	if err := r.client.Database("admin").RunCommand(context.Background(), o).Decode(&answer); err != nil {
		return answer, fmt.Errorf("mongotest: %w", err)
	}
	return answer, nil
}

// controlOverWire serves the admin command.
func controlOverWire(r *request) error {
	var o order
	if err := bson.Unmarshal(r.body, &o); err != nil {
		return fail(codeFailedToParse, "mongotest: %v", err)
	}
	answer, err := r.server.act(o)
	if err != nil {
		return err
	}
	doc, err := bson.Marshal(answer)
	if err != nil {
		return fmt.Errorf("mongotest: encode the answer: %w", err)
	}
	for e := range fields(doc) {
		r.reply.buf = append(r.reply.buf, e...)
	}
	return nil
}
