package main

import (
	"context"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// runNotifyInTest runs beside the other soaks.
func runNotifyInTest(t *testing.T, change func(*notifySettings)) *notifySoak {
	t.Helper()
	t.Parallel()
	built, err := programs()
	must.OK(t, err)
	c := notifySettings{
		Programs: built, Seed: seed, Duration: 15 * time.Second, Workers: 2, APIs: 2, Rate: 40, Users: 200,
		Dir: t.TempDir(), Out: t.Output(),
	}
	if inLong {
		c.Duration, c.Rate, c.Users = 25*time.Second, 60, 300
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

// A quarter of a minute of kills of every kind of process, and a death at each failpoint.
//
// Promise(notify/aliases)
// Promise(acceptance/c1): C1: after kill -9 of any process each event has its decision, and none has
// two (`go run ./proof/soak notify`).
// Promise(proof/notify-soak): Real processes of notifications under kill -9 decide each event once and
// dispatch it under one id, as the oracle says.
// Figure: 45 min: 220 kill -9, 145,721 events, 168,612 decisions, 66,577 dispatches: 0 without a
// decision, 0 with two, 0 differences
func TestShortNotifySoak(t *testing.T) {
	kills := mix{killWorker: 1, killAPI: 1, killPoller: 1, killBroker: 1, killLedger: 1, arm: 1}
	if inLong {
		kills[killWorker], kills[killAPI], kills[arm] = 3, 2, 2
	}
	s := runNotifyInTest(t, func(c *notifySettings) { c.Mix, c.AllPoints = kills, true })
	if s.counts.kills() != kills.kills() {
		t.Errorf("%d kills, want %d", s.counts.kills(), kills.kills())
	}
	f := s.findings
	if s.feed.repeated.Load() == 0 || f.Deferred == 0 || f.Digested == 0 || f.Sent == 0 || s.reports.confirmed.Load() == 0 {
		t.Errorf("%d repeated, %d reports: the traffic is too tame: %s", s.feed.repeated.Load(), s.reports.confirmed.Load(), f)
	}
	if f.Cancelled == 0 || f.FollowUps == 0 || f.Limited == 0 || f.Merged == 0 {
		t.Errorf("the traffic is too tame: %s", f)
	}
	if len(f.Sets) < 3 {
		t.Errorf("of %d sets of rules %d decided something", s.published.Load(), len(f.Sets))
	}
}
