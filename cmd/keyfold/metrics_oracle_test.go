package main

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"keyfold/engine/profile"
)

// maxPage is what a page of a worker may have: 100 KiB.
const maxPage = 100 << 10

// Where no process is killed, a worker's counters are the oracle's counts, in deliveries;
// ten dead letters are ten. Each page on the way is small.
func TestMetricsAgreeWithTheOracle(t *testing.T) {
	const repeats, missing, dead = 300, 40, 10
	events := 2000
	if long {
		events = 12_000
	}
	s := newStack(t)
	now := time.Now().Add(-time.Hour)
	var bodies [][]byte
	for i := range events {
		bodies = append(bodies, event(int32(1+i%600), profile.ProductView, 1+i%5, now.Add(time.Duration(i)*time.Millisecond), fmt.Sprint("event ", i)))
	}
	bodies = append(bodies, bodies[:repeats]...)
	for i := range missing {
		bodies = append(bodies, event(int32(1+i), profile.ProductView, 999_999, now, fmt.Sprint("missing ", i)))
	}
	o := s.expect(t, bodies)
	all := slices.Clone(bodies)
	for range dead {
		all = append(all, []byte("{"))
	}
	s.publish(t, all...)
	d := s.work(t, quick).ready()
	var took []time.Duration
	longest := 0
	eventually(t, "all is settled", func() error {
		began := time.Now()
		_, page := d.get("/metrics")
		took, longest = append(took, time.Since(began)), max(longest, len(page))
		if d.metric("keyfold_rabbitmq_acked_total") != int64(len(all)) {
			return errors.New(page)
		}
		return nil
	})
	slices.Sort(took)
	t.Logf("%d pages, the longest of %d bytes; half within %v, the slowest %v", len(took), longest, took[len(took)/2], took[len(took)-1])
	if longest > maxPage {
		t.Errorf("a page has %d bytes, want at most %d", longest, maxPage)
	}
	for series, want := range map[string]int{
		`keyfold_events_total{outcome="folded"}`: o.Folded, `keyfold_events_total{outcome="duplicate"}`: o.Repeated,
		`keyfold_events_total{outcome="product_missing"}`: o.Missing, `keyfold_events_total{outcome="dead"}`: dead,
		`keyfold_events_total{outcome="retried"}`: 0, `keyfold_events_total{outcome="parked"}`: 0,
		"keyfold_rabbitmq_delivered_total": len(all), "keyfold_rabbitmq_returned_total": 0, "keyfold_rabbitmq_in_hand": 0,
		"messages_processed_total": len(bodies), `messages_failed_total{error_type="malformed_json"}`: dead,
		"keyfold_dead_letters_total": dead, "worker_instances_active": 1,
		"keyfold_event_to_profile_seconds_count": o.Folded, `keyfold_event_to_profile_seconds_bucket{le="+Inf"}`: o.Folded,
	} {
		if n := d.metric(series); n != int64(want) {
			t.Errorf("%s is %d, want %d", series, n, want)
		}
	}
}
