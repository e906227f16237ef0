package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// reasons returns why what is in the dead-letter queue was given up, by message
// id, once there are n letters.
func (s *stack) reasons(t *testing.T, n int) map[string]string {
	t.Helper()
	eventually(t, "all are dead-lettered", func() error {
		if depth := s.depth(t, rabbit.DefaultNames().DeadLetters); depth != n {
			return fmt.Errorf("%d dead letters, want %d", depth, n)
		}
		return nil
	})
	reasons := map[string]string{}
	for _, d := range s.dump(t, rabbit.DefaultNames().DeadLetters) {
		reasons[d.MessageId] = fmt.Sprint(d.Headers["x-first-death-reason"])
	}
	return reasons
}

// One user makes half of all events, hundreds of them each second: they are
// gathered into few writes, and the others do not wait behind them.
//
// Promise(away/busy-user): A user who makes half of all events costs few writes and delays no other
// user.
func TestEdge_HundredsOfEventsPerSecondOfOneUser(t *testing.T) {
	const hot, each, cold = 1, 2000, 100
	s := newStack(t)
	s.work(t, "--batch-window=0.5", "--batch-max-delay=2").ready()
	now := time.Now().Add(-time.Hour)
	var bodies [][]byte
	for i := range each {
		at := now.Add(time.Duration(i) * 2 * time.Millisecond)
		bodies = append(bodies,
			event(hot, profile.ProductView, 1+i%240, at, fmt.Sprint("hot ", i)),
			event(int32(2+i%cold), profile.ProductClick, 1+i%240, at, fmt.Sprint("cold ", i)))
	}
	s.publish(t, bodies...)
	s.settled(t, s.expect(t, bodies))
	all := allProfiles(t, s.open(t))
	if writes := all[hot].Version; writes > each/20 {
		t.Errorf("%d events of one user took %d writes", each, writes)
	}
	last := func(p *profile.Profile) engine.Millis { return p.Applied.Last() }
	later := 0
	for user, p := range all {
		if user != hot && last(p) > last(all[hot])+engine.Millis(time.Second.Milliseconds()) {
			later++
		}
	}
	if later > cold/10 {
		t.Errorf("%d of %d users were written a second and more behind the busy one", later, cold)
	}
}

// A product that is not in the catalogue: a warning and a count, the message is
// acknowledged, no retry, and the rest of its batch is folded.
//
// Promise(event/product-unknown): An event of an unknown product is counted, warned of and
// acknowledged; its batch is folded, and the product is asked for again after 5 s.
func TestEdge_UnknownProduct(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	now := time.Now().Add(-time.Hour)
	known := event(1, profile.ProductView, 1, now, "known")
	s.publish(t, known, event(1, profile.ProductPurchase, 999_999, now.Add(time.Second), "unknown"),
		event(2, profile.ProductPurchase, 999_999, now, "a user of this one alone"))
	s.settled(t, s.expect(t, [][]byte{known}))
	eventually(t, "all is acknowledged", func() error {
		if n := d.metric("keyfold_rabbitmq_acked_total"); n != 3 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	for metric, want := range map[string]int64{
		`keyfold_events_total{outcome="product_missing"}`: 2, "keyfold_retries_total": 0, "keyfold_dead_letters_total": 0,
	} {
		if n := d.metric(metric); n != want {
			t.Errorf("%s is %d, want %d", metric, n, want)
		}
	}
	d.stop() // it logs what was gathered since the first of the minute
	warned := 0
	for line := range strings.Lines(d.log.String()) {
		if strings.Contains(line, `"WARN"`) && strings.Contains(line, `"product_id":999999`) {
			warned++
		}
	}
	if warned != 2 {
		t.Errorf("%d warnings name the product, want 2:\n%s", warned, d.log)
	}
	s.emptied(t)
}

// A queue that one slow worker cannot keep up with: further workers take their
// share, and it drains.
//
// Promise(away/backlog): Events that come faster than a worker folds wait at the broker, and more
// workers take their share.
func TestEdge_QueueGrowsFasterThanWorkers(t *testing.T) {
	i := newImpaired(t)
	s := i.repaired(t)
	mongotest.FailCommand(t, i.store.URI(), "alwaysOn", bson.M{
		"failCommands": bson.A{"insert", "update"}, "blockConnection": true, "blockTimeMS": 100,
	})
	args := []string{quick, "--prefetch=32"}
	daemons := []*daemon{s.work(t, args...).ready()}
	g := sample.DefaultConfig(200)
	g.Skew = 0
	bodies := sample.Events(g)
	s.publish(t, bodies...)
	if n := s.depth(t, rabbit.DefaultNames().Queue); n < len(bodies)/2 {
		t.Fatalf("%d messages wait: the queue does not grow", n)
	}
	daemons = append(daemons, s.work(t, args...).ready(), s.work(t, args...).ready())
	s.settled(t, s.expect(t, bodies))
	for n, d := range daemons {
		if folded := d.metric(`keyfold_events_total{outcome="folded"}`); folded < int64(len(bodies)/20) {
			t.Errorf("worker %d folded %d of %d events", n, folded, len(bodies))
		}
		d.stop()
	}
	s.emptied(t)
}

// Products whose vectors cannot be used (the shop writes them): each event is
// dead-lettered with what is wrong, and the profile stays as it was.
//
// Promise(event/bad-vector): A vector that is zero, of the wrong length, or has NaN or infinity is
// dead-lettered with that reason; the profile stays as it was.
// Promise(mongodb/nan): NaN is refused before writing and when reading.
func TestEdge_InvalidVectorDimensions(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	now := time.Now().Add(-time.Hour)
	good := [][]byte{event(1, profile.ProductPurchase, 1, now, "before")}
	s.publish(t, good...)
	s.settled(t, s.expect(t, good))
	before := allProfiles(t, s.open(t))[1]

	vectorOf := func(n int, value float64) bson.A {
		v := make(bson.A, n)
		for i := range v {
			v[i] = 0.5
		}
		if n > 0 {
			v[n/2] = value
		}
		return v
	}
	zero := make(bson.A, dimensions)
	for i := range zero {
		zero[i] = 0.0
	}
	bad := []struct {
		name, reason string
		vector       bson.A
	}{
		{"one short", "wrong_dimensions", vectorOf(dimensions-1, 0.5)},
		{"one long", "wrong_dimensions", vectorOf(dimensions+1, 0.5)},
		{"empty", "wrong_dimensions", vectorOf(0, 0)},
		{"NaN", "not_finite", vectorOf(dimensions, math.NaN())},
		{"infinite", "not_finite", vectorOf(dimensions, math.Inf(-1))},
		{"beyond float32", "not_finite", vectorOf(dimensions, 1e300)},
		{"zero", "zero_vector", zero},
	}
	s.insertProducts(t, 9000, func(yield func(bson.A) bool) {
		for _, b := range bad {
			if !yield(b.vector) {
				return
			}
		}
	})
	var bodies [][]byte
	for i, b := range bad {
		bodies = append(bodies, event(1, profile.ProductView, 9000+i, now.Add(time.Second), b.name))
	}
	s.publish(t, bodies...)
	reasons := s.reasons(t, len(bad))
	for _, b := range bad {
		if reasons[b.name] != b.reason {
			t.Errorf("%s: dead-lettered as %q, want %q", b.name, reasons[b.name], b.reason)
		}
	}
	after := allProfiles(t, s.open(t))[1]
	if after.Version != before.Version || after.EventCount != 1 || after.Mass != before.Mass {
		t.Errorf("the profile was changed: %+v, before %+v", after, before)
	}
	// One among good ones spares them.
	mate := event(1, profile.ProductView, 2, now.Add(2*time.Second), "mate")
	s.publish(t, mate, event(1, profile.ProductView, 9000, now.Add(2*time.Second), "bad mate"))
	s.settled(t, s.expect(t, append(good, mate)))
	s.reasons(t, len(bad)+1)
	if n := d.metric("keyfold_retries_total"); n != 0 {
		t.Errorf("%d retries of what no retry can cure", n)
	}
}

// insertProducts writes products with these vectors past keyfold, as a shop may.
func (s *stack) insertProducts(t *testing.T, first int, vectors func(func(bson.A) bool)) {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(s.mongo))
	must.OK(t, err)
	defer client.Disconnect(t.Context())
	collection := client.Database("keyfold").Collection("product_embeddings")
	for v := range vectors {
		doc := bson.D{{Key: "product_id", Value: int32(first)}, {Key: "embedding", Value: v}, {Key: "dimension_count", Value: int32(len(v))}}
		if _, err := collection.InsertOne(t.Context(), doc); err != nil {
			t.Fatal(err)
		}
		first++
	}
}

// The same event many times: in one window, to several workers, and again when
// it was folded long ago.
//
// Promise(event/folded-once)
func TestEdge_PublishedManyTimes(t *testing.T) {
	s := newStack(t)
	daemons := []*daemon{s.work(t, quick).ready(), s.work(t, quick).ready()}
	a := event(1, profile.ProductPurchase, 1, time.Now().Add(-time.Hour), "a")
	b := event(1, profile.Search, "mug", time.Now().Add(-time.Hour), "b")
	published := 0
	for range 3 {
		for range 25 {
			s.publish(t, a, b)
			published += 2
		}
		s.settled(t, s.expect(t, [][]byte{a, b}))
	}
	eventually(t, "every copy has its verdict", func() error {
		duplicates := int64(0)
		for _, d := range daemons {
			duplicates += d.metric(`keyfold_events_total{outcome="duplicate"}`)
		}
		if duplicates != int64(published-2) {
			return fmt.Errorf("%d duplicates, want %d", duplicates, published-2)
		}
		return nil
	})
	if p := allProfiles(t, s.open(t))[1]; p.EventCount != 2 || p.Version > 2 {
		t.Errorf("%d events in %d writes", p.EventCount, p.Version)
	}
	for _, d := range daemons {
		d.stop()
	}
	s.emptied(t)
}

// A worker dies with events in its windows: another one that runs gets them.
//
// Promise(away/worker-killed): What a killed worker held is delivered to the others; profiles equal
// one-at-a-time folding.
// Figure: 0 lost, 0 doubled
func TestEdge_WorkerCrash(t *testing.T) {
	s := newStack(t)
	dying := s.program(t, still, never)
	bodies := sample.Events(sample.DefaultConfig(40))
	s.publish(t, bodies...)
	dying.holds(int64(len(bodies)))
	other := s.work(t, quick).ready()
	must.OK(t, dying.command.Process.Kill())
	s.settled(t, s.expect(t, bodies))
	eventually(t, "all was delivered again and acknowledged", func() error {
		if again, acked := other.metric("keyfold_rabbitmq_redelivered_total"), other.metric("keyfold_rabbitmq_acked_total"); again != int64(len(bodies)) || acked != again {
			return fmt.Errorf("%d again, %d acknowledged, want %d", again, acked, len(bodies))
		}
		return nil
	})
	other.stop()
	s.emptied(t)
}
