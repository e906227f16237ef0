package consume

import (
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/sitetest"
)

// An ordered consumer that went on beside held messages has its whole prefetch again once
// those are acknowledged, and the queue's order.
//
// Promise(batching/prefetch)
func TestAnOrderedPrefetchComesBack(t *testing.T) {
	s := shared(t)
	const events = 1500
	s.Publish(s.Messages(events)...)
	var in inbox
	config := s.config()
	config.Ordered, config.Prefetch = true, 400
	r := s.run(config, in.deliver)
	sitetest.Eventually(t, "the whole prefetch is here", func() bool { return in.len() == config.Prefetch })
	r.Pause()
	s.unsubscribed()
	all := in.take()
	for _, d := range all[:250] {
		d.Settler.Settle(folded)
	}
	sitetest.Eventually(t, "they are acknowledged", func() bool { return r.Stats.Acked.Load() == 250 })
	r.Resume()
	sitetest.Eventually(t, "what is not held is delivered", func() bool { return in.len() == 250 })
	settle := func(some []profile.Delivery) {
		for _, d := range some {
			d.Settler.Settle(folded)
		}
	}
	settle(all[250:])
	sitetest.Eventually(t, "the whole prefetch is here, of which nothing was settled", func() bool { return in.len() == config.Prefetch })
	some := in.take()
	settle(some)
	for all = append(all, some...); len(all) < events; {
		sitetest.Eventually(t, "more", func() bool { return in.len() > 0 })
		some = in.take()
		settle(some)
		all = append(all, some...)
	}
	sitetest.Eventually(t, "the prefetch is told", func() bool { return r.inForce() >= int64(config.Prefetch-config.Prefetch/4) })
	for i, d := range all {
		if want := sitetest.Event(t, sitetest.Body(i)).MessageID; d.Event.MessageID != want {
			t.Fatalf("event %d is %s, want %s", i, d.Event.MessageID, want)
		}
	}
}
