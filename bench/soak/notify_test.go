package main

import (
	"context"
	"testing"
	"time"
)

// runNotifyInTest runs beside the other soaks.
func runNotifyInTest(t *testing.T, change func(*notifySettings)) *notifySoak {
	t.Helper()
	t.Parallel()
	built, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	c := notifySettings{
		Programs: built, Seed: seed, Duration: 25 * time.Second, Workers: 2, APIs: 2, Rate: 60, Users: 300,
		Dir: t.TempDir(), Out: t.Output(),
	}
	change(&c)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	s, err := runNotify(ctx, c)
	s.report()
	if err != nil {
		t.Fatalf("seed %d: %v", c.Seed, err)
	}
	return s
}

// Half a minute of kills of every kind of process, and a death at each failpoint.
func TestShortNotifySoak(t *testing.T) {
	kills := mix{killWorker: 3, killAPI: 2, killPoller: 1, killBroker: 1, killLedger: 1, arm: 2}
	s := runNotifyInTest(t, func(c *notifySettings) { c.Mix, c.AllPoints = kills, true })
	if s.kills() != kills.notifyKills() {
		t.Errorf("%d kills, want %d", s.kills(), kills.notifyKills())
	}
	f := s.findings
	if s.feed.repeated.Load() == 0 || f.Deferred == 0 || f.Digested == 0 || f.Sent == 0 || s.reports.confirmed.Load() == 0 {
		t.Errorf("%d repeated, %d reports: the traffic is too tame: %s", s.feed.repeated.Load(), s.reports.confirmed.Load(), f)
	}
	if len(f.Sets) < 3 {
		t.Errorf("of %d sets of rules %d decided something", s.published.Load(), len(f.Sets))
	}
}
