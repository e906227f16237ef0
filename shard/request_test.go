package shard

import (
	"strings"
	"testing"
	"time"
)

// The windows of the named keys close at once with all that was submitted before, and
// those of other keys keep their time.
func TestCloseWhere(t *testing.T) {
	inBubble(t, testConfig(), func(_ *testing.T, r rig) {
		r.submit("a1", "xy")
		r.submit("b1", "x")
		r.submit("a2", "x")
		time.Sleep(time.Second)
		r.router.CloseWhere(func(key string) bool { return strings.HasPrefix(key, "a") })
		r.expect(seen{"a1", "xy", TriggerRequest, time.Second}, seen{"a2", "x", TriggerRequest, time.Second})
		r.submit("a1", "z") // a window of its own, with its whole time
		time.Sleep(4 * time.Second)
		r.expect(seen{"b1", "x", TriggerIdle, 5 * time.Second})
		time.Sleep(time.Second)
		r.expect(seen{"a1", "z", TriggerIdle, 6 * time.Second})
	})
}

// A key in flight keeps its order: its closed window waits for the flush.
func TestCloseWhereWaitsForTheFlushOfItsKey(t *testing.T) {
	inBubble(t, testConfig(), func(t *testing.T, r rig) {
		r.hold = make(chan struct{})
		all := func(string) bool { return true }
		r.submit("a", "x")
		r.router.CloseWhere(all)
		r.expect(seen{"a", "x", TriggerRequest, 0})
		r.submit("a", "y")
		r.router.CloseWhere(all)
		r.expect()
		r.hold <- struct{}{}
		r.expect(seen{"a", "y", TriggerRequest, 0})
		if n := r.router.Stats().Closed[TriggerRequest]; n != 2 {
			t.Errorf("%d windows counted, want 2", n)
		}
	})
}
