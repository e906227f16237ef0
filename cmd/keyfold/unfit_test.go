package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// collection is user_embeddings as another program sees it.
func (s *stack) collection(t *testing.T) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(s.mongo))
	must.OK(t, err)
	t.Cleanup(func() { _ = client.Disconnect(t.Context()) })
	return client.Database("keyfold").Collection("user_embeddings")
}

// A profile that cannot be used, without a version or of another history, stops
// its user only: the events are parked with no attempt used, the log has the cure,
// and they are folded once it is cured.
//
// Promise(event/unusable-profile): Events of a user whose profile cannot be used are parked, with no
// attempt used and the cure in the log; all others go on, also at a start.
func TestOneUnusableProfileStopsItsUserOnly(t *testing.T) {
	i := newImpaired(t)
	s := i.repaired(t)
	if code, _, errs := s.run(t, "", "setup", "--retry-delay=20ms"); code != 0 {
		t.Fatal(errs)
	}
	d := s.work(t, quick).ready()
	now := time.Now().Add(-time.Hour)
	var bodies [][]byte
	publish := func(what string) {
		t.Helper()
		for user := int32(1); user <= 30; user++ {
			bodies = append(bodies, event(user, profile.ProductView, user, now, fmt.Sprint(what, user)))
			s.publish(t, bodies[len(bodies)-1])
		}
	}
	publish("first ")
	s.settled(t, s.expect(t, bodies))
	d.stop()
	users := s.collection(t)
	break13 := func(change bson.D) {
		t.Helper()
		_, err := users.UpdateOne(t.Context(), bson.D{{Key: "user_id", Value: 13}}, change)
		must.OK(t, err)
	}
	for round, broken := range []struct {
		damage, cure bson.D
		said         string
	}{
		{bson.D{{Key: "$unset", Value: bson.D{{Key: "version", Value: ""}}}}, bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: int32(7)}}}}, "set it to 1"},
		{bson.D{{Key: "$set", Value: bson.D{{Key: "history", Value: "unit"}}}}, bson.D{{Key: "$set", Value: bson.D{{Key: "history", Value: "mass"}}}}, "EMBEDDING_HISTORY=unit"},
	} {
		break13(broken.damage)
		d := s.work(t, quick, "--retry-delay=20ms", "--max-retries=1").ready() // with nothing in its cache
		publish(fmt.Sprint("round ", round, " "))
		eventually(t, "all others are folded, and its events parked", func() error {
			f, p := d.metric(`keyfold_events_total{outcome="folded"}`), d.metric(`keyfold_events_total{outcome="parked"}`)
			if f != 29 || p < 2 {
				return fmt.Errorf("%d folded, %d parked", f, p)
			}
			return nil
		})
		if code, body := d.get("/readyz"); code != http.StatusOK {
			t.Errorf("readiness says %d %s", code, body)
		}
		break13(broken.cure)
		s.settled(t, s.expect(t, bodies))
		if dead, retries := d.metric("keyfold_dead_letters_total"), d.metric("keyfold_retries_total"); dead != 0 || retries != 0 {
			t.Errorf("%d dead letters, %d retries", dead, retries)
		}
		if log := d.log.String(); !strings.Contains(log, "user 13") || !strings.Contains(log, broken.said) {
			t.Errorf("the cure is not in the log:\n%s", log)
		}
		d.stop()
	}
}
