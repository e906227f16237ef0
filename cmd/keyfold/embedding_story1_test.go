package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/source/rabbit"
	"keyfold/source/vector/embedtest"
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
	viewed := event(1, engine.ProductView, 1, then, "viewed")
	a.publish(t, viewed)
	first := a.work(t, quick).ready()
	a.settled(t, a.expect(t, [][]byte{viewed}))
	first.stop()
	before := profiles(t, a.open(t))[1]

	known := event(1, engine.Search, "wireless headphones", now, "known user")
	unknown := event(2, engine.Search, "  garden \t hose ", now, "new user")
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
	all := profiles(t, a.open(t))

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
		math.Abs(p.Mass-0.7) > 1e-12 || p.Version != 1 || p.EventCount != 1 || p.LastType != engine.Search {
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

// The smallest number of calls: ten thousand searches for 500 phrases cost each
// phrase once, in few requests; a worker that is started again finds all of them
// in Redis.
func TestPhrasesAreAskedForOnce(t *testing.T) {
	const events, phrases, requests = 10_000, 500, 60
	a := newAPIStack(t).withRedis(t)
	a.api.SetFaults(embedtest.Faults{Latency: 50 * time.Millisecond})
	bodies := searches(events, 2000, "cold ", zipf(phrases))
	a.publish(t, bodies...)
	before := a.api.Counts()
	cold := a.work(t, quick).ready()
	a.settled(t, a.expect(t, bodies))
	asked, inputs := a.asked(before)
	t.Logf("%d events, %d phrases: %d phrases were sent in %d requests", events, phrases, inputs, asked)
	if inputs > phrases || asked > requests {
		t.Errorf("%d phrases were sent in %d requests, want at most %d in %d", inputs, asked, phrases, requests)
	}
	// A Redis that is slow for a moment is passed by: on a busy machine that is no
	// fault of the cache, and the next worker fills the gap.
	failed := func(d *daemon) int64 {
		return d.metric("keyfold_redis_failures_total") + d.metric("keyfold_redis_bypassed_total")
	}
	eventually(t, "all vectors are in Redis", func() error {
		if n := cold.metric("keyfold_redis_written_total"); n != phrases && failed(cold) == 0 {
			return fmt.Errorf("%d were written, want %d", n, phrases)
		}
		return nil
	})
	slow := failed(cold)
	cold.stop()

	all := bodies
	for attempt := 1; ; attempt++ {
		before = a.api.Counts()
		warm := a.work(t, quick).ready()
		again := searches(events, 2000, fmt.Sprint("warm ", attempt, " "), zipf(phrases))
		a.publish(t, again...)
		all = append(all, again...)
		a.settled(t, a.expect(t, all))
		asked, _ := a.asked(before)
		slow += failed(warm)
		if n := warm.metric(`keyfold_phrases_total{from="redis"}`); asked == 0 && n == phrases {
			return
		} else if slow == 0 || attempt == 3 {
			t.Fatalf("%d requests with a warm Redis, want none; %d phrases came from Redis, %d calls failed", asked, n, slow)
		}
		warm.stop()
	}
}
