package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/service/profile/worker"
	sink "keyfold/sink/memory"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/vector"
)

// wire is an event as a consumer of its own would declare it.
type wire struct {
	UserID       int32          `json:"user_id"`
	EventType    string         `json:"event_type"`
	SearchPhrase *string        `json:"search_phrase"`
	ProductID    *int32         `json:"product_id"`
	OccurredAt   time.Time      `json:"occurred_at"`
	Metadata     map[string]any `json:"metadata"`
	MessageID    string         `json:"message_id"`
}

// bare decodes and acknowledges, and does nothing else.
func bare(_ context.Context, d *draining) error {
	conn, deliveries, err := d.channel()
	if err != nil {
		return err
	}
	for range d.events {
		m := <-deliveries
		var e wire
		if err := errors.Join(json.Unmarshal(m.Body, &e), m.Ack(false)); err != nil {
			return err
		}
	}
	return conn.Close()
}

// plainWorkers is how many events the plain consumer works on at once.
const plainWorkers = 8

// plainProfile is a profile as the driver's struct codec knows it.
type plainProfile struct {
	UserID    int32     `bson:"user_id"`
	Embedding []float64 `bson:"embedding"`
	Updated   time.Time `bson:"last_updated"`
	Count     int32     `bson:"event_count"`
	Version   int32     `bson:"version"`
}

// plain reads, folds and writes each event by itself, under a version check, as
// a worker without windows does.
func plain(ctx context.Context, d *draining) error {
	client, err := mongo.Connect(options.Client().ApplyURI(d.Profiles.URI))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(ctx) }() // nothing is written by then
	users := client.Database("plain").Collection("user_embeddings")
	if _, err := users.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys: bson.D{{Key: "user_id", Value: 1}}, Options: options.Index().SetUnique(true),
	}); err != nil {
		return err
	}
	vectors, err := d.vectors()
	if err != nil {
		return err
	}
	conn, deliveries, err := d.channel()
	if err != nil {
		return err
	}
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var begun atomic.Int64
	var wg sync.WaitGroup
	for range plainWorkers {
		wg.Go(func() {
			for begun.Add(1) <= int64(d.events) {
				select {
				case m := <-deliveries:
					if err := d.plainEvent(working, users, vectors, m); err != nil {
						fail(err)
					}
				case <-working.Done():
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(context.Cause(working), conn.Close())
}

func (d *draining) plainEvent(ctx context.Context, users *mongo.Collection, vectors func(*wire) []float64, m amqp.Delivery) error {
	var e wire
	if err := json.Unmarshal(m.Body, &e); err != nil {
		return err
	}
	x := vectors(&e)
	laws := d.config.Processor.Config
	weight, err := laws.Weights.Of(profile.ParseEventType(e.EventType))
	if err != nil {
		return err
	}
	for {
		var p plainProfile
		err := users.FindOne(ctx, bson.D{{Key: "user_id", Value: e.UserID}}).Decode(&p)
		if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
		state := profile.State{Vector: p.Embedding, Mass: 1, Updated: engine.MillisOf(p.Updated)}
		state = laws.FoldOne(state, profile.Step{Vector: x, Weight: weight, At: engine.MillisOf(e.OccurredAt)})
		next := plainProfile{e.UserID, state.Vector, state.Updated.Time(), p.Count + 1, p.Version + 1}
		if errors.Is(err, mongo.ErrNoDocuments) {
			_, err = users.InsertOne(ctx, next)
		} else {
			var r *mongo.UpdateResult
			r, err = users.UpdateOne(ctx, bson.D{{Key: "user_id", Value: e.UserID}, {Key: "version", Value: p.Version}}, bson.D{{Key: "$set", Value: next}})
			if err == nil && r.MatchedCount == 0 {
				continue // another write was faster
			}
		}
		if mongo.IsDuplicateKeyError(err) {
			continue
		}
		return errors.Join(err, m.Ack(false))
	}
}

// vectors returns unit vectors of events, all in memory before the clock starts
// to matter.
func (d *draining) vectors() (func(*wire) []float64, error) {
	products := map[int32][]float64{}
	for _, p := range d.products {
		unit, err := engine.Unit(p.Vector, d.config.Processor.Dimensions)
		if err != nil {
			return nil, err
		}
		products[p.ID] = unit
	}
	hash, err := vector.NewHash(d.config.Processor.Dimensions)
	if err != nil {
		return nil, err
	}
	phrases, err := vector.NewPhrases(vector.DefaultConfig(), hash)
	return func(e *wire) []float64 {
		if e.ProductID != nil {
			return products[*e.ProductID]
		}
		return phrases.Resolve(context.Background(), []string{*e.SearchPhrase})[0].Vector
	}, err
}

// keyfoldWay is the worker itself, with the store on the wire, or without a format one in
// memory.
func keyfoldWay(batching bool, format mongodb.Format) func(context.Context, *draining) error {
	return func(ctx context.Context, d *draining) error {
		c := worker.Config{Config: d.config, DSN: d.DSN, Names: rabbit.DefaultNames(), Identity: rabbit.ThisProcess("bench")}
		c.Processor.Model, c.Shard.Batching = vector.HashModel, batching
		ports := worker.Ports{
			OpenStore: func(context.Context) (worker.Store, error) {
				return inMemory{sink.New(c.Processor.Dimensions), d.products}, nil
			},
			Log: slog.New(slog.DiscardHandler),
		}
		if format != "" {
			ports.OpenStore = func(ctx context.Context) (worker.Store, error) {
				m := mongodb.DefaultConfig()
				m.URI, m.Model, m.Format = d.Profiles.URI, c.Processor.Model, format
				store, err := mongodb.Open(ctx, m)
				return onTheWire{store, d.products}, err
			}
		}
		return d.consume(ctx, worker.New(c, ports))
	}
}

// inMemory is a store without servers.
type inMemory struct {
	*sink.Profiles
	shop
}

func (inMemory) Probe(context.Context) error { return nil }
func (inMemory) Close() error                { return nil }

// onTheWire is the store with the products that the benchmark has at hand.
type onTheWire struct {
	*mongodb.Store
	products shop
}

func (s onTheWire) Products(ctx context.Context, ids []int32) ([]profile.Product, error) {
	return s.products.Products(ctx, ids)
}

func (d *draining) consume(ctx context.Context, w *worker.Worker) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	// The queue is empty long before the last windows close by themselves: the stop
	// closes them.
	for s := w.Stats(); s == nil || s.Windows.Submitted < uint64(d.events); s = w.Stats() {
		select {
		case err := <-ended:
			return errors.Join(err, errors.New("the worker ended early"))
		case <-time.After(time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	if t := w.Stats().Processor; t.Of(engine.Folded)+t.Of(engine.Duplicate) != int64(d.events) {
		return errors.New("not every event was folded")
	}
	return nil
}
