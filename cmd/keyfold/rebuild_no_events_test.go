package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
)

// A history without an event makes no profile that could replace the stored one,
// whatever that one counts. `user rebuild` refuses, with and without --force, and
// does not advise --force.
func TestRebuildOfAProfileWithEventCountZero(t *testing.T) {
	s := newStack(t)
	path := filepath.Join(t.TempDir(), "shop.db")
	client, err := mongo.Connect(options.Client().ApplyURI(s.mongo))
	must.OK(t, err)
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
	must.OK(t, err)
	s.stored(t, path, time.Hour, nil)
	for _, more := range [][]string{nil, {"--force"}} {
		args := append([]string{"user", "rebuild", "17", "--database-url", "sqlite://" + path}, more...)
		code, _, errs := s.run(t, "", args...)
		if code != cli.ExitFailure || !strings.Contains(errs, "no event of user 17 is in the outbox (a prune may have deleted it): the stored profile stays") ||
			strings.Contains(errs, "--force replaces") {
			t.Errorf("%v: exit code %d, %q", more, code, errs)
		}
	}
	if code, out, errs := s.run(t, "", "user", "rebuild", "18", "--database-url", "sqlite://"+path); code != cli.ExitFailure || out != "" ||
		!strings.Contains(errs, "no event of user 18 is in the outbox") || strings.Contains(errs, "stored profile") {
		t.Errorf("a user without a profile: exit code %d, %q, %q", code, out, errs)
	}
	if p := allProfiles(t, s.open(t))[17]; p == nil || p.Version != 1 || p.EventCount != 0 || p.Vector[0] != 1 {
		t.Errorf("the stored profile is %+v afterwards", p)
	}
}
