package main

import (
	"fmt"
	"math"
	"regexp"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// FR-004: the shop publishes and goes on; whether a worker runs is not its
// concern.
func TestFR004PublishingNeedsNoWorker(t *testing.T) {
	s := newStack(t)
	a := event(1, profile.ProductView, 1, time.Now().Add(-time.Minute), "alone")
	s.publish(t, a) // returns once the broker has it
	if n := s.depth(t, rabbit.DefaultNames().Queue); n != 1 {
		t.Fatalf("%d messages wait, want 1", n)
	}
	s.work(t, quick).ready()
	s.settled(t, s.expect(t, [][]byte{a}))
}

// FR-005: structure and values are checked before anything is done; what is
// refused is in the dead-letter queue, and its neighbours are folded.
//
// Promise(event/malformed, security/refusals-logged)
func TestFR005MalformedEventsAreRefused(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	now := time.Now().Add(-time.Minute)
	good := event(1, profile.ProductView, 1, now, "good")
	bad := [][]byte{
		[]byte(`{"user_id":1}`),
		event(1, profile.Search, "", now, "no phrase"),
		event(0, profile.ProductView, 1, now, "user 0"),
		event(1, profile.ProductView, "null", now, "no product"),
		event(1, profile.ProductView, 1, time.Now().Add(time.Hour), "tomorrow"),
		[]byte(`[]`), []byte(`{`), []byte("\xff"),
	}
	s.publish(t, append(bad, good)...)
	s.settled(t, s.expect(t, [][]byte{good}))
	eventually(t, "every malformed one is dead-lettered", func() error {
		if n := s.depth(t, rabbit.DefaultNames().DeadLetters); n != len(bad) {
			return fmt.Errorf("%d dead letters, want %d", n, len(bad))
		}
		return nil
	})
	if n := d.metric("keyfold_malformed_total"); n != int64(len(bad)) {
		t.Errorf("%d counted as malformed, want %d", n, len(bad))
	}
	told := regexp.MustCompile(`"msg":"malformed event dead-lettered",.*"message_id":"([^"]+)"`).FindAllStringSubmatch(d.log.String(), -1)
	if len(told) == 0 {
		t.Errorf("the log names none of them:\n%s", d.log)
	}
	for _, line := range told {
		s.dlq(t, "show", line[1])
	}
}

// FR-009: the four types count by their weights: a new profile's mass is its
// event's weight.
func TestFR009Weights(t *testing.T) {
	s := newStack(t)
	s.work(t, quick).ready()
	now := time.Now().Add(-time.Minute)
	bodies := [][]byte{
		event(1, profile.ProductPurchase, 1, now, "purchase"),
		event(2, profile.Search, "coffee", now, "search"),
		event(3, profile.ProductClick, 1, now, "click"),
		event(4, profile.ProductView, 1, now, "view"),
	}
	s.publish(t, bodies...)
	s.settled(t, s.expect(t, bodies))
	all := allProfiles(t, s.open(t))
	for user, want := range map[int32]float64{1: 1.0, 2: 0.7, 3: 0.5, 4: 0.3} {
		if got := all[user].Mass; math.Abs(got-want) > 1e-12 {
			t.Errorf("user %d has mass %v, want %v", user, got, want)
		}
	}
}

// FR-011: the profile is a document of the published form, as any program may
// read it.
func TestFR011StoredDocument(t *testing.T) {
	s := newStack(t)
	s.work(t, quick).ready()
	a := event(5, profile.ProductView, 1, time.Now().Add(-time.Minute), "stored")
	s.publish(t, a)
	s.settled(t, s.expect(t, [][]byte{a}))
	client, err := mongo.Connect(options.Client().ApplyURI(s.mongo))
	must.OK(t, err)
	defer client.Disconnect(t.Context())
	var doc bson.M
	must.OK(t, client.Database("keyfold").Collection("user_embeddings").FindOne(t.Context(), bson.D{{Key: "user_id", Value: 5}}).Decode(&doc))
	for field, want := range map[string]any{
		"user_id": int32(5), "dimension_count": int32(dimensions), "event_count": int32(1), "version": int32(1),
		"last_event_type": "product_view", "history": "mass",
	} {
		if doc[field] != want {
			t.Errorf("%s is %v (%T), want %v", field, doc[field], doc[field], want)
		}
	}
	if v, ok := doc["embedding"].(bson.A); !ok || len(v) != dimensions {
		t.Errorf("embedding is %T", doc["embedding"])
	}
	for _, field := range []string{"last_updated", "created_at", "updated_at"} {
		if _, ok := doc[field].(bson.DateTime); !ok {
			t.Errorf("%s is %T, want a date", field, doc[field])
		}
	}
}

// FR-012: while the store takes nothing, nothing is acknowledged; when it does,
// all is.
//
// Promise(event/acknowledged): An event is acknowledged once a majority of the store has its profile,
// never before.
// Promise(batching/verdicts): A verdict follows the write's fate.
func TestFR012AcknowledgedOnlyOnceWritten(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	store := mongotest.Start(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	d := s.work(t, quick).ready()
	// From here on writes reach one server only: no majority has them.
	must.OK(t, store.StallReplication())
	inserts := func() int64 {
		stats, err := store.Stats()
		must.OK(t, err)
		return stats.Commands["insert"]
	}
	before := inserts()
	a := event(6, profile.ProductView, 1, time.Now().Add(-time.Minute), "held back")
	s.publish(t, a)
	eventually(t, "the write is tried", func() error {
		if n := inserts(); n == before {
			return fmt.Errorf("%d inserts, as before", n)
		}
		return nil
	})
	time.Sleep(500 * time.Millisecond) // ample time to do it wrong
	if acked, unacked := d.metric("keyfold_rabbitmq_acked_total"), d.metric("keyfold_rabbitmq_unacked"); acked != 0 || unacked != 1 {
		t.Errorf("%d acknowledged and %d not while no majority has the write", acked, unacked)
	}
	must.OK(t, store.Replicate())
	s.settled(t, s.expect(t, [][]byte{a}))
	eventually(t, "it is acknowledged", func() error {
		if n := d.metric("keyfold_rabbitmq_acked_total"); n != 1 {
			return fmt.Errorf("%d acknowledged", n)
		}
		return nil
	})
}
