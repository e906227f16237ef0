package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/embedtest"
	"keyfold/source/rabbit"
	"keyfold/source/vector/openai"
)

func hourAgo() time.Time { return time.Now().Add(-time.Hour).Truncate(time.Millisecond) }

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// Story 1.1 to 1.3 with the real client: a search is published with user, phrase
// and time; a worker has the phrase embedded and folds it, weighted and decayed,
// into the user's profile; a new user's profile is the first phrase's vector.
func TestStory1ThroughTheEmbeddingAPI(t *testing.T) {
	a := newAPIStack(t)
	now := hourAgo()
	then := now.Add(-30 * 24 * time.Hour)
	viewed := event(1, profile.ProductView, 1, then, "viewed")
	a.publish(t, viewed)
	first := a.work(t, quick).ready()
	a.settled(t, a.expect(t, [][]byte{viewed}))
	first.stop()
	before := allProfiles(t, a.open(t))[1]

	known := event(1, profile.Search, "wireless headphones", now, "known user")
	unknown := event(2, profile.Search, "  garden \t hose ", now, "new user")
	a.publish(t, known, unknown)
	for _, d := range a.dump(t, rabbit.DefaultNames().Queue) {
		var m struct {
			User   int32  `json:"user_id"`
			Phrase string `json:"search_phrase"`
			At     string `json:"occurred_at"`
		}
		if err := json.Unmarshal(d.Body, &m); err != nil || m.User == 0 || m.Phrase == "" || m.At == "" {
			t.Errorf("published %s: %v", d.Body, err)
		}
		if d.RoutingKey != "user.embedding.search" {
			t.Errorf("published with the routing key %s", d.RoutingKey)
		}
	}

	a.work(t, quick).ready()
	a.settled(t, a.expect(t, [][]byte{viewed, known, unknown}))
	all := allProfiles(t, a.open(t))

	// The law by hand, with the vectors the server gives anybody who asks.
	want := make([]float64, dimensions)
	floats.AddScaled(want, before.Mass*math.Exp(-0.023*30), before.Vector)
	floats.AddScaled(want, 0.7, a.vector(t, "wireless headphones"))
	mass := floats.Norm(want, 2)
	floats.Scale(1/mass, want)
	if p := all[1]; floats.Distance(p.Vector, want, math.Inf(1)) > 1e-9 || math.Abs(p.Mass-mass) > 1e-9 || p.Version != 2 {
		t.Errorf("the known user's profile, of mass %v and version %d, is not the law's of mass %v", p.Mass, p.Version, mass)
	}
	p := all[2]
	if floats.Distance(p.Vector, a.vector(t, "garden hose"), math.Inf(1)) > 1e-9 ||
		math.Abs(p.Mass-0.7) > 1e-12 || p.Version != 1 || p.EventCount != 1 || p.LastType != profile.Search {
		t.Errorf("the first search made %+v", p)
	}
	for user, p := range all {
		if p.Model != openai.DefaultModel {
			t.Errorf("user %d has embedding_model %q", user, p.Model)
		}
	}
	if n := a.api.Asked()["garden hose"]; n != 2 { // the worker and this test
		t.Errorf("the phrase was asked for as it was typed: %v", a.api.Asked())
	}
}

// zipf draws one of n phrases, few of them often; each is drawn at least once.
func zipf(n int) func(i int) string {
	draw := rand.NewZipf(rand.New(rand.NewPCG(3, 4)), 1.1, 2, uint64(n-1))
	return func(i int) string {
		if i < n {
			return fmt.Sprintf("phrase number %d", i)
		}
		return fmt.Sprintf("phrase number %d", draw.Uint64())
	}
}

// The smallest number of calls: thousands of searches for 500 phrases cost each
// phrase once, several in a request; a worker that is started again finds all of
// them in Redis. (How few requests it takes is a figure of source/vector, where
// time can be controlled.)
//
// A busy machine makes a call fail here and there, which is no fault of the
// caches: what is asserted is asserted of the calls that did not fail, and the
// test goes on until there were enough.
func TestPhrasesAreAskedForOnce(t *testing.T) {
	const events, users, phrases = 5_000, 500, 500
	a := newAPIStack(t).withRedis(t)
	a.api.SetFaults(embedtest.Faults{Latency: 50 * time.Millisecond})
	all := searches(events, users, "cold ", zipf(phrases))
	a.publish(t, all...)
	before := a.api.Counts()
	d := a.work(t, quick).ready()
	a.settled(t, a.expect(t, all))
	asked, inputs := a.asked(before)
	t.Logf("%d events, %d phrases: %d phrases were sent in %d requests", events, phrases, inputs, asked)
	if inputs < phrases || inputs > phrases && failedCalls(d) == 0 || asked >= phrases {
		t.Errorf("%d phrases were sent in %d requests, %d of which failed; want each of %d once, several in a request",
			inputs, asked, failedCalls(d), phrases)
	}

	// Each attempt brings what the ones before could not write.
	inRedis := func() (n int) {
		fmt.Sscanf(a.redis.Do(t, "DBSIZE"), ":%d", &n)
		return n
	}
	for attempt := 1; ; attempt++ {
		eventually(t, "all vectors are in Redis", func() error {
			if n := inRedis(); n != phrases && failedLooks(d) == 0 {
				return fmt.Errorf("%d of %d are", n, phrases)
			}
			return nil
		})
		d.stop()
		if inRedis() == phrases {
			break
		}
		if attempt == 20 {
			t.Fatalf("after %d workers %d of %d vectors are in Redis", attempt, inRedis(), phrases)
		}
		again := searches(phrases, users, fmt.Sprint("filling ", attempt, " "), zipf(phrases))
		a.publish(t, again...)
		all = append(all, again...)
		d = a.work(t, quick).ready()
		a.settled(t, a.expect(t, all))
	}

	// A few phrases at a time: those of a group whose looks into Redis all
	// succeeded came from there.
	const group = 25
	next := zipf(phrases)
	for proven, start := 0, 0; proven < 5; start += group {
		if start%phrases == 0 {
			if start > 0 {
				d.stop()
			}
			if start == 10*phrases {
				t.Fatalf("only %d groups had no failure of Redis", proven)
			}
			d = a.work(t, quick).ready()
		}
		before, failed := a.api.Counts(), failedLooks(d)
		some := searches(group, users, fmt.Sprint("warm ", start, " "), func(i int) string { return next((start + i) % phrases) })
		a.publish(t, some...)
		all = append(all, some...)
		want := int64(start%phrases + group)
		eventually(t, "a group of searches is folded", func() error {
			if n := d.metric(`keyfold_events_total{outcome="folded"}`); n != want {
				return fmt.Errorf("%d are, want %d", n, want)
			}
			return nil
		})
		if failedLooks(d) > failed {
			continue
		}
		if _, inputs := a.asked(before); inputs != 0 {
			t.Fatalf("%d phrases were asked for, of which Redis had all", inputs)
		}
		proven++
	}
	if n := d.metric(`keyfold_phrases_total{from="redis"}`); n < group {
		t.Errorf("%d phrases came from Redis", n)
	}
	a.settled(t, a.expect(t, all))
}

// failedCalls counts calls of the API that brought nothing.
func failedCalls(d *daemon) int64 {
	return d.metric(`keyfold_embedding_failures_total{kind="transient"}`)
}

// failedLooks counts looks into Redis that failed or were spared.
func failedLooks(d *daemon) int64 {
	return d.metric("keyfold_redis_failures_total") + d.metric("keyfold_redis_bypassed_total")
}
