package main

import (
	"fmt"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/embedtest"
)

// A worker is stopped while searches wait for an API that does not answer: it
// ends in time and in order, and the next one folds them.
//
// Promise(away/faulty-embedding)
func TestStopWhileSearchesWait(t *testing.T) {
	a := newAPIStack(t)
	a.api.SetFaults(embedtest.Faults{Hang: 1})
	first := a.work(t, quick).ready()
	bodies := searches(50, 20, "waits ", func(i int) string { return fmt.Sprint("lamp ", i%30) })
	a.publish(t, bodies...)
	eventually(t, "they wait", func() error {
		if n := first.metric("keyfold_searches_waiting"); n != int64(len(bodies)) {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	if n := first.metric("keyfold_flushes_running"); n != 0 {
		t.Errorf("%d flushes wait with them", n)
	}
	if code := first.stop(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, first.log)
	}
	a.api.SetFaults(embedtest.Faults{})
	second := a.work(t, quick).ready()
	a.settled(t, a.expect(t, bodies))
	second.stop()
	a.emptied(t)
}

// In the history that depends on order no event overtakes a search: one worker
// that finds a backlog in order folds it in order.
func TestUnitHistoryThroughTheEmbeddingAPI(t *testing.T) {
	a := newAPIStack(t)
	a.history = profile.UnitMass
	a.api.SetFaults(embedtest.Faults{Latency: 50 * time.Millisecond})
	now := hourAgo()
	var bodies [][]byte
	for i := range 600 {
		at, id := now.Add(milliseconds(i)), fmt.Sprintf("%05d", i)
		if i%3 == 0 {
			bodies = append(bodies, event(int32(1+i%5), profile.Search, fmt.Sprint("lamp ", i), at, id))
		} else {
			bodies = append(bodies, event(int32(1+i%5), profile.ProductView, 1+i*7%240, at, id))
		}
	}
	a.publish(t, bodies...)
	a.work(t, quick, "--batch-max-size=4", "--shards=3").ready()
	a.settled(t, a.expect(t, bodies))
}
