package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// A shop's row of no time costs its user nothing but the row, and a profile that cannot be
// read stops no other user's rebuild.
//
// Promise(outbox/bad-time)
func TestRebuildGoesOnPastAFaultyUser(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	api := s.ingest(t)
	api.accepted(sampleOf(t, 200)...)
	s.allSent(t)
	s.work(t, quick).ready()
	o := s.expect(t, s.bodies(t))
	s.settled(t, o)
	s.exec(t, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, message_id) VALUES (2, 'product_view', 1, 'tomorrow', 'no time')")
	eventually(t, "the row is set aside", func() error {
		if n := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE failed_at IS NOT NULL"); n != 1 {
			return errors.New("it is not")
		}
		return nil
	})
	if r := s.rebuild(t, "2"); r.Same != 1 {
		t.Errorf("the user of the row: %+v", r)
	}
	s.must(t, "history", "stats")

	client, err := mongo.Connect(options.Client().ApplyURI(s.mongo))
	must.OK(t, err)
	defer client.Disconnect(t.Context())
	users := client.Database("keyfold").Collection("user_embeddings")
	spoilt, err := users.UpdateOne(t.Context(), bson.D{{Key: "user_id", Value: bson.D{{Key: "$gt", Value: 2}}}}, bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: "one"}}}},
		options.UpdateOne().SetBypassDocumentValidation(true))
	if must.OK(t, err); spoilt.ModifiedCount != 1 {
		t.Fatalf("%+v", spoilt)
	}
	code, out, errs := s.run(t, "user", "rebuild", "--all", "-o", "json")
	var r rebuilt
	must.OK(t, json.Unmarshal([]byte(out), &r))
	if code != cli.ExitFailure || r.Failed != 1 || r.Same != len(o.Users)-1 {
		t.Errorf("exit code %d, %+v of %d users", code, r, len(o.Users))
	}
	for _, says := range []string{"1 user could not be rebuilt", "profile not rebuilt", "row of the history left out"} {
		if !strings.Contains(errs, says) {
			t.Errorf("the command does not say %q: %s", says, errs)
		}
	}
}
