package main

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// event makes a body; target is a phrase or a product id.
func event(user int32, t profile.EventType, target any, at time.Time, id string) []byte {
	phrase, product := "null", "null"
	if t == profile.Search {
		phrase = fmt.Sprintf("%q", target)
	} else {
		product = fmt.Sprint(target)
	}
	return fmt.Appendf(nil, `{"user_id":%d,"event_type":%q,"search_phrase":%s,"product_id":%s,"occurred_at":%q,"metadata":{"device":"mobile"},"message_id":%q,"version":"1.0"}`,
		user, t, phrase, product, at.UTC().Format("2006-01-02T15:04:05.000-07:00"), id)
}

const quick = "--batch-window=0.2"

// Story 1.1 to 1.3, FR-006 and FR-008: a search is published with user, phrase and time; a worker
// embeds the phrase and folds it with its weight into the user's profile; a new
// user's profile is made of the first search alone.
func TestStory1SearchEvents(t *testing.T) {
	s := newStack(t)
	s.work(t, quick).ready()
	now := time.Now().Add(-time.Hour)
	first := event(1, profile.Search, "wireless headphones", now, "s1")
	s.publish(t, first)
	alone := s.expect(t, [][]byte{first})
	s.settled(t, alone)
	if p := allProfiles(t, s.open(t))[1]; p.Version != 1 || p.EventCount != 1 || p.LastType != profile.Search || math.Abs(p.Mass-0.7) > 1e-12 {
		t.Errorf("the first search made %+v", p)
	}
	second := event(1, profile.Search, "garden hose", now.Add(time.Minute), "s2")
	s.publish(t, second)
	s.settled(t, s.expect(t, [][]byte{first, second}))
}

// Story 2.1 to 2.3, FR-007: views, clicks and purchases fold the product's vector with
// their own weights, and those of one user within the window share one write.
func TestStory2ProductEventsShareOneWrite(t *testing.T) {
	s := newStack(t)
	s.work(t, "--batch-window=2").ready()
	now := time.Now().Add(-time.Hour)
	bodies := [][]byte{
		event(7, profile.ProductView, 1, now, "v"),
		event(7, profile.ProductClick, 50, now.Add(time.Second), "c"),
		event(7, profile.ProductPurchase, 100, now.Add(2*time.Second), "p"),
		event(7, profile.ProductView, 999_999, now.Add(2*time.Second), "unknown product"),
	}
	s.publish(t, bodies...)
	s.settled(t, s.expect(t, bodies))
	if p := allProfiles(t, s.open(t))[7]; p.Version != 1 || p.EventCount != 3 {
		t.Errorf("three events of one window took %d writes, %d events", p.Version, p.EventCount)
	}
}

// Story 3.1 and 3.2, FR-010: what is old counts less: 0.85 after 7 days, half after 30,
// 0.13 after 90.
func TestStory3Decay(t *testing.T) {
	s := newStack(t)
	s.work(t, quick).ready()
	now := time.Now().Add(-time.Hour)
	user := int32(0)
	for _, age := range []struct{ days, share float64 }{{7, 0.85}, {30, 0.50}, {90, 0.13}} {
		user++
		then := now.Add(-time.Duration(age.days * float64(24*time.Hour)))
		s.publish(t,
			event(user, profile.ProductPurchase, 1, then, fmt.Sprint("old ", user)),
			event(user, profile.ProductPurchase, 200, now, fmt.Sprint("new ", user)))
		store := s.open(t)
		eventually(t, "both are folded", func() error {
			if p := allProfiles(t, store)[user]; p == nil || p.EventCount != 2 {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
		x, y := s.vector(t, 1), s.vector(t, 200)
		p := allProfiles(t, store)[user]
		// u is (share x + y) / mass: project y's part out and read the share off x.
		rest := make([]float64, len(x))
		floats.AddScaledTo(rest, x, -floats.Dot(x, y), y)
		share := p.Mass * floats.Dot(p.Vector, rest) / floats.Dot(x, rest)
		if math.Abs(share-age.share) > 0.005 {
			t.Errorf("after %v days a purchase counts %.3f, want %.2f", age.days, share, age.share)
		}
	}
}

func (s *stack) vector(t *testing.T, product int32) []float64 {
	t.Helper()
	found, err := s.open(t).Products(t.Context(), []int32{product})
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	unit, err := engine.Unit(found[0].Vector, dimensions)
	must.OK(t, err)
	return unit
}

// FR-018: several workers take a shop's traffic,
// malformed events are refused, copies change nothing, and everything is
// acknowledged once it is written.
//
// Promise(away/backlog, rabbitmq/shared-windows)
func TestTrafficThroughTwoWorkers(t *testing.T) {
	s := newStack(t)
	c := sample.DefaultConfig(150)
	c.Repeats = 0.1
	bodies := sample.Events(c)
	one, two := s.work(t, quick).ready(), s.work(t, quick).ready()
	bad := [][]byte{
		[]byte("not json"),
		event(1, profile.Search, "", time.Now(), "no phrase"),
		[]byte(strings.Replace(string(event(1, profile.Search, "x", time.Now(), "bad")), `"user_id":1`, `"user_id":"1"`, 1)),
	}
	s.publish(t, append(bodies, bad...)...)
	s.settled(t, s.expect(t, bodies))
	eventually(t, "the malformed ones are dead-lettered", func() error {
		if n := s.depth(t, rabbit.DefaultNames().DeadLetters); n != len(bad) {
			return fmt.Errorf("%d dead letters, want %d", n, len(bad))
		}
		return nil
	})
	eventually(t, "all is acknowledged", func() error {
		for _, d := range []*daemon{one, two} {
			if n := d.metric("keyfold_rabbitmq_unacked"); n != 0 {
				return fmt.Errorf("%d messages are not acknowledged", n)
			}
		}
		return nil
	})
	if n := one.metric(`keyfold_events_total{outcome="folded"}`); n <= 0 {
		t.Errorf("the first worker folded %d events", n)
	}
	one.stop()
	two.stop()
	s.emptied(t)
}

// FR-013: the same event again, in the window and long after it.
//
// Promise(event/folded-once)
func TestRedeliveredEventChangesNothing(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	a := event(3, profile.ProductView, 5, time.Now().Add(-time.Minute), "again")
	s.publish(t, a, a, a)
	s.settled(t, s.expect(t, [][]byte{a}))
	s.publish(t, a)
	eventually(t, "the copy is a duplicate", func() error {
		if n := d.metric(`keyfold_events_total{outcome="duplicate"}`); n != 3 {
			return fmt.Errorf("%d duplicates, want 3", n)
		}
		return nil
	})
	if p := allProfiles(t, s.open(t))[3]; p.EventCount != 1 || p.Version != 1 {
		t.Errorf("%+v", p)
	}
}

// The history that depends on order: one worker that finds a backlog in order
// folds it in order, also where a user's events fill many batches.
func TestUnitHistoryKeepsTheQueuesOrder(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.UnitMass}
	s.setUp(t)
	now := time.Now().Add(-time.Hour)
	var bodies [][]byte
	for i := range 600 {
		bodies = append(bodies, event(int32(1+i%3), profile.ProductView, 1+i*7%240, now.Add(time.Duration(i)*time.Millisecond), fmt.Sprintf("%05d", i)))
	}
	s.publish(t, bodies...)
	s.work(t, quick, "--batch-max-size=4", "--shards=3").ready()
	s.settled(t, s.expect(t, bodies))
}

// A forgotten user stays forgotten: late events are acknowledged and counted.
//
// Promise(event/erased-user): An event of an erased user is acknowledged and counted, whatever its
// time; nothing brings the user back.
// Promise(security/forget)
func TestForget(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	now := time.Now().Add(-time.Minute)
	a := event(9, profile.ProductView, 5, now, "before")
	s.publish(t, a)
	s.settled(t, s.expect(t, [][]byte{a}))
	if code, out, errs := s.run(t, "", "user", "forget", "9", "--yes"); code != 0 || !strings.Contains(out, "erased") {
		t.Fatal(code, out, errs)
	}
	s.publish(t, event(9, profile.ProductView, 6, now.Add(time.Second), "after"))
	eventually(t, "the late event is dropped", func() error {
		if n := d.metric(`keyfold_events_total{outcome="user_erased"}`); n != 1 {
			return fmt.Errorf("%d dropped", n)
		}
		return nil
	})
	if p := allProfiles(t, s.open(t))[9]; !p.Erased() || p.Vector != nil {
		t.Errorf("%+v", p)
	}
	code, out, _ := s.run(t, "", "user", "show", "9")
	if code != 0 || !strings.Contains(out, "erased") {
		t.Errorf("user show: %d %s", code, out)
	}
}

// Mistakes are answered with the cure, before anything is consumed.
//
// Promise(event/configuration)
func TestMistakes(t *testing.T) {
	s := newStack(t)
	s.publish(t, event(1, profile.ProductView, 1, time.Now().Add(-time.Minute), "m"))
	s.settledBy(t)
	for _, tc := range []struct {
		name string
		code int
		args []string
		want []string
	}{
		{"no key", 2, []string{"work", "--embedder=openai"}, []string{"OPENAI_API_KEY", "EMBEDDER=hash"}},
		{"embedder", 2, []string{"work", "--embedder=", "--redis-url=http://x", "--embedding-cache-ttl=soon"}, []string{"EMBEDDER", "REDIS_URL", "EMBEDDING_CACHE_TTL"}},
		{"settings", 2, []string{"work", "--batch-window=soon", "--shards=-1", "--admin-addr=x"}, []string{"EMBEDDING_BATCH_WINDOW", "WORKER_SHARDS", "ADMIN_ADDR"}},
		{"other history", 1, []string{"work", "--history=unit"}, []string{"EMBEDDING_HISTORY"}},
		{"other dimensions", 1, []string{"work", "--dimensions=32"}, []string{"EMBEDDING_DIMENSIONS"}},
		{"not set up", 1, []string{"work", "--mongodb-database=empty"}, []string{"keyfold setup"}},
		{"broker password", 1, []string{"setup", "--rabbitmq-dsn", strings.Replace(s.dsn, "guest:guest", "guest:s3cret", 1)}, []string{"RABBITMQ_DSN"}},
		{"queue type", 1, []string{"setup", "--rabbitmq-queue-type=quorum"}, []string{"user_embedding_updates"}},
		{"unknown user", 1, []string{"user", "show", "12345"}, []string{"no profile in the database", "may still wait", "failed list --user 12345"}},
		{"mongo uri", 2, []string{"setup", "--mongodb-uri=mongo://x"}, []string{"MONGODB_URI"}},
	} {
		code, _, errs := keyfold(t.Context(), "", append(s.flags(), tc.args...)...)
		if code != tc.code {
			t.Errorf("%s: exit code %d, want %d: %s", tc.name, code, tc.code, errs)
		}
		for _, want := range tc.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q is missing in: %s", tc.name, want, errs)
			}
		}
		if strings.Contains(errs, "s3cret") {
			t.Errorf("%s: a password was printed: %s", tc.name, errs)
		}
	}
}

// settledBy folds what is in the queue with a worker of its own.
func (s *stack) settledBy(t *testing.T) {
	t.Helper()
	d := s.work(t, quick).ready()
	eventually(t, "the queue is folded", func() error {
		if n := d.metric(`keyfold_events_total{outcome="folded"}`); n < 1 {
			return fmt.Errorf("%d folded", n)
		}
		return nil
	})
	if code := d.stop(); code != 0 {
		t.Fatalf("%d: %s", code, d.log)
	}
}

// Setup is idempotent, and the admin endpoint tells alive from ready.
//
// Promise(security/foreign-hosts)
func TestSetupTwiceAndHealth(t *testing.T) {
	s := newStack(t)
	if code, out, errs := s.run(t, "", "setup"); code != 0 || !strings.Contains(out, "retry queues user_embedding_updates.retry.") {
		t.Fatalf("a second setup: %s%s", out, errs)
	}
	d := s.work(t).ready()
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusOK, "/metrics": http.StatusOK, "/else": http.StatusNotFound} {
		if code, body := d.get(path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	// A browser that another site's DNS led here names that site.
	for host, want := range map[string]int{"127.0.0.1:9090": http.StatusOK, "localhost": http.StatusOK, "rebound.example:9090": http.StatusForbidden} {
		for _, path := range []string{"/metrics", "/readyz"} {
			if code, body := d.getAs(host, path); code != want || want != http.StatusOK && strings.Contains(body, "keyfold_") {
				t.Errorf("%s under the name %s: %d %.100s", path, host, code, body)
			}
		}
	}
	if code := d.stop(); code != 0 {
		t.Errorf("stopping an idle worker: %d\n%s", code, d.log)
	}
}
