package rabbit

import (
	"testing"

	"keyfold/engine"
)

// An ordered consumer that went on beside held messages has its whole prefetch again once
// those are acknowledged, and the queue's order.
func TestAnOrderedPrefetchComesBack(t *testing.T) {
	s := shared(t)
	const events = 1500
	s.publish(s.messages(events)...)
	var in inbox
	config := s.config()
	config.Ordered, config.Prefetch = true, 400
	r := s.run(config, in.deliver)
	eventually(t, "the whole prefetch is here", func() bool { return in.len() == config.Prefetch })
	r.Pause()
	s.unsubscribed()
	all := in.take()
	for _, d := range all[:250] {
		d.Settler.Settle(folded)
	}
	eventually(t, "they are acknowledged", func() bool { return r.Stats.Acked.Load() == 250 })
	r.Resume()
	eventually(t, "what is not held is delivered", func() bool { return in.len() == 250 })
	settle := func(some []engine.Delivery) {
		for _, d := range some {
			d.Settler.Settle(folded)
		}
	}
	settle(all[250:])
	eventually(t, "the whole prefetch is here, of which nothing was settled", func() bool { return in.len() == config.Prefetch })
	some := in.take()
	settle(some)
	for all = append(all, some...); len(all) < events; {
		eventually(t, "more", func() bool { return in.len() > 0 })
		some = in.take()
		settle(some)
		all = append(all, some...)
	}
	eventually(t, "the prefetch is told", func() bool { return r.inForce() >= int64(config.Prefetch-config.Prefetch/4) })
	for i, d := range all {
		if want := event(t, body(i)).MessageID; d.Event.MessageID != want {
			t.Fatalf("event %d is %s, want %s", i, d.Event.MessageID, want)
		}
	}
}
