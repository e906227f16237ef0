package sim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/shard"
)

// backlogPlan has one worker with the default windows start on more events than
// its prefetch holds, some of which are searches.
func backlogPlan(events, users, searches int) *plan {
	p := &plan{
		dimensions: 4, workers: 1, windows: shard.DefaultConfig(), users: int32(users),
		retry: settings.Retry{Attempts: 5, Delay: 5 * time.Second}, holdMax: time.Minute,
		cacheBytes: 1 << 20, conflicts: 10, phraseTimeout: 3 * time.Second,
		ids:    profile.IDLimits{Retention: time.Hour, Min: 1, Keep: 16, Max: 1 << 18},
		shop:   shopOf(4),
		byBody: map[string]int{}, erased: map[int32]bool{},
	}
	p.prefetch, p.windows.MaxHeldBytes = 512, 32<<20 // half of the prefetch fits at first
	p.lease, p.ids.Horizon = settings.Horizon(p.holdMax, p.windows.MaxDelay)
	for i := range events {
		kind, phrase, product := "product_view", "null", fmt.Sprint(1+i%products)
		if i%100 < searches {
			kind, phrase, product = "search", fmt.Sprintf(`"phrase %d"`, i%50), "null"
		}
		user := int32(1 + i*7919%users)
		p.addEvent(event{user: user, properties: propertiesOf(""), body: fmt.Appendf(nil,
			`{"user_id":%d,"event_type":%q,"search_phrase":%s,"product_id":%s,"occurred_at":"2000-01-01T00:00:00Z","message_id":"event-%d"}`,
			user, kind, phrase, product, i)})
	}
	p.publications, p.rates.lag = len(p.events), 20*time.Millisecond
	return p
}

// standstill is the longest time in which events waited at the broker and none was
// delivered, while the store was there.
func (w *simulation) standstill() (longest time.Duration) {
	const look = 10 * time.Millisecond
	since, before := time.Now(), -1
	for !w.broker.idle() && time.Since(w.Began) < 2*time.Minute {
		time.Sleep(look)
		w.broker.mu.Lock()
		ready := len(w.broker.ready)
		w.broker.mu.Unlock()
		if down, _ := w.store.away(); ready != before || ready == 0 || down {
			since, before = time.Now(), ready
		}
		longest = max(longest, time.Since(since))
	}
	return longest
}

// A worker that starts on a backlog never waits for the end of a window, whatever waits
// outside of the windows and however often the consumer was paused: all that the broker may
// deliver is delivered, and where that is used up windows close early.
//
// Promise(batching/prefetch): Windows close by what may still come, so that no backlog waits for a
// window's end; growth cancels no consumer.
func TestBacklogWaitsForNoWindow(t *testing.T) {
	for _, tt := range []struct {
		name            string
		users, searches int
		outages         []time.Duration // when they begin
	}{
		{"views", 150, 0, nil},
		{"users that come once", 1500, 0, nil},
		{"half of them searches", 150, 50, nil},
		{"with pauses", 150, 10, []time.Duration{150 * time.Millisecond, 20 * time.Second, 40 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSimulation(1, kind{}, nil)
				w.plan = backlogPlan(1500, tt.users, tt.searches)
				w.broker = newBroker(w)
				for i := range w.plan.events {
					w.broker.publish(i)
				}
				w.start(0)
				for _, at := range tt.outages {
					time.AfterFunc(at, func() { w.profiles.takeDown(10*time.Second, false) })
				}
				k := w.workers[0]
				longest := w.standstill()
				took, closed := time.Since(w.Began), k.daemon.Load().Stats().Windows.Closed
				w.stop(0, true)
				<-k.stopped
				w.clear()
				t.Logf("%v, at a standstill for %v at most; windows closed: %v", took, longest, closed)
				if !w.broker.idle() {
					t.Errorf("%d events are ready, %d unacknowledged; ready: %v, notes %v", len(w.broker.ready), w.broker.unacked, k.daemon.Load().Ready(), k.daemon.Load().Notes())
				}
				for _, err := range w.broker.faults {
					t.Error(err)
				}
				if longest > 2*time.Second {
					t.Errorf("nothing was delivered for %v", longest)
				}
			})
		})
	}
}
