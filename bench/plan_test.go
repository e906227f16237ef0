package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func plan(window, maxDelay time.Duration, size int) *planCmd {
	return &planCmd{
		Users: 1e6, Rate: 1e4, Window: window, MaxDelay: maxDelay, MaxSize: size,
		Prefetch: 65535, Worker: 11763, Node: 30000, Writes: 4000, ProfileBytes: 24e3, EventBytes: 1e3,
	}
}

// A user at random makes windows whose mean size is known: e^(rate x window) where nothing else bounds them
// (the gaps are exponential), and 1 + rate x window where they do not restart.
func TestPlanOfOneUser(t *testing.T) {
	for _, c := range []struct {
		plan *planCmd
		rate float64
		want float64
	}{
		{plan(5*time.Second, time.Hour, 1e9), 0.2, math.Exp(1)},
		{plan(5*time.Second, 5*time.Second, 1e9), 0.2, 2},
		{plan(5*time.Second, 15*time.Second, 1e9), 0.001, 1.005},
		{plan(5*time.Second, 15*time.Second, 500), 1000, 500},
	} {
		if got := c.plan.poisson(c.rate).perWrite; math.Abs(got/c.want-1) > 0.04 {
			t.Errorf("%v/s in windows of %v to %v: %v events per write, want %v", c.rate, c.plan.Window, c.plan.MaxDelay, got, c.want)
		}
	}
}

// Every event is in one window, none waits longer than MaxDelay, and longer windows are never more.
func TestPlanWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 60).Draw(t, "times")
		slices.Sort(times)
		c := plan(time.Duration(rapid.IntRange(1, 20).Draw(t, "window"))*time.Second,
			time.Duration(rapid.IntRange(1, 40).Draw(t, "delay"))*time.Second, rapid.IntRange(1, 30).Draw(t, "size"))
		var count, waited float64
		c.windows(times, &count, &waited)
		n := float64(len(times))
		if count < n/float64(c.MaxSize) || count > n || waited < 0 || waited > n*c.MaxDelay.Seconds()+1e-9 {
			t.Fatalf("%v windows of %v events, which wait %v s", count, n, waited)
		}
		c.Window, c.MaxDelay, c.MaxSize = 2*c.Window, 2*c.MaxDelay, 2*c.MaxSize
		var fewer float64
		if c.windows(times, &fewer, &waited); fewer > count {
			t.Fatalf("%v windows, and %v of twice the length", count, fewer)
		}
	})
}

func TestPlan(t *testing.T) {
	amounts := func(c *planCmd) (map[string]float64, need) {
		t.Helper()
		traffic, part, err := c.fit()
		if err != nil {
			t.Fatal(err)
		}
		needs := c.needs(traffic, part)
		all := map[string]float64{}
		for _, n := range needs {
			all[n.what] = n.amount
		}
		if math.Abs(all["store writes/s"]*all["events per write"]/c.Rate-1) > 1e-9 {
			t.Errorf("%v writes/s of %v events are not %v/s", all["store writes/s"], all["events per write"], c.Rate)
		}
		if all["events held at once"] > 0.75*c.Prefetch*all["workers"]+1 {
			t.Errorf("more is held than the prefetch: %v", all)
		}
		return all, breaksFirst(needs)
	}
	c := plan(5*time.Second, 15*time.Second, 500)
	c.Pattern = "uniform"
	small, _ := amounts(c)
	c.Users, c.Rate = 2*c.Users, 2*c.Rate
	twice, _ := amounts(c)
	if small["partitions"] != 1 || twice["partitions"] != 2 || twice["store writes/s"] != 2*small["store writes/s"] {
		t.Errorf("%v, and of twice the load %v", small, twice)
	}
	// Where the prefetch holds a tenth, windows are shorter and writes more.
	c.Prefetch = 4096
	if tight, _ := amounts(c); tight["windows, part of their length"] >= 0.9 || tight["store writes/s"] <= twice["store writes/s"] {
		t.Errorf("with a small prefetch %v, without %v", tight, twice)
	}
	// A hundred times the load: a partition has more than a worker takes.
	c.Users, c.Rate, c.Prefetch, c.Pattern = 100e6, 1e6, 65535, "visits"
	large, first := amounts(c)
	if large["partitions"] != 64 || first.what != "events/s of one partition" || first.amount <= first.max {
		t.Errorf("%v: %v breaks first", large, first)
	}
	c.Pattern = "zipf"
	if _, first := amounts(c); first.what != "events/s of the most active user" {
		t.Errorf("%v breaks first", first)
	}
	var text strings.Builder
	if err := c.report(&text, c.needs(traffic{perWrite: 2}, 1)); err != nil || !strings.Contains(text.String(), "does not hold") {
		t.Errorf("%v: %s", err, &text)
	}
}

// A queue is led by one node: 64 queues of which a node takes one are 64 nodes.
func TestPlanDividesNoQueue(t *testing.T) {
	for _, tc := range []struct{ rate, partitions, want float64 }{{1e6, 64, 64}, {1e5, 16, 4}, {1e3, 1, 3}, {9e5, 64, 32}, {1e5, 1, 3}} {
		c := planCmd{Rate: tc.rate, Node: 30000}
		if got := c.nodes(tc.partitions); got != tc.want {
			t.Errorf("%.0f messages/s in %.0f queues: %.0f nodes, want %.0f", tc.rate, tc.partitions, got, tc.want)
		}
	}
}
