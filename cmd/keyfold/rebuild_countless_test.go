package main

import (
	"path/filepath"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A profile of another worker, which counts no events, and a history of which
// nothing was sent yet: rebuild says so and goes on.
func TestRebuildOfACountlessProfileWithNothingSent(t *testing.T) {
	s := newStack(t)
	path := filepath.Join(t.TempDir(), "shop.db")
	client, err := mongo.Connect(options.Client().ApplyURI(s.mongo))
	must(t, err)
	defer client.Disconnect(t.Context())
	v := make([]float64, dimensions)
	v[0] = 1
	_, err = client.Database("keyfold").Collection("user_embeddings").InsertOne(t.Context(), bson.D{
		{Key: "user_id", Value: int32(17)},
		{Key: "embedding", Value: v},
		{Key: "dimension_count", Value: int32(dimensions)},
		{Key: "last_updated", Value: time.Now()},
		{Key: "event_count", Value: int32(0)},
		{Key: "last_event_type", Value: "search"},
		{Key: "created_at", Value: time.Now()},
		{Key: "updated_at", Value: time.Now()},
		{Key: "version", Value: int32(1)},
	})
	must(t, err)
	s.stored(t, path, time.Hour, nil2(t))
	code, out, errs := s.run(t, "", "user", "rebuild", "17", "--database-url", "sqlite://"+path)
	t.Log(code, out, errs)
}

func nil2(*testing.T) [][]byte { return nil }
