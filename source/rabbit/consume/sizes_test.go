package consume

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// heavy returns n events with bodies of so many bytes.
func (s *site) heavy(n, size int) []rabbit.Message {
	all := s.Messages(n)
	for i := range all {
		pad := strings.Repeat("x", size-len(all[i].Body))
		all[i].Body = bytes.Replace(all[i].Body, []byte(`"mobile"`), []byte(`"mobile`+pad+`"`), 1)
	}
	return all
}

// Whatever the prefetch, what the broker has sent and not got back fits the
// budget: a backlog of large events is taken in parts.
//
// Promise(bounds/large-bodies): A worker begins with as many events as fit of the largest, takes its
// whole prefetch once they are small, and pauses over the budget.
// Figure: 3,000 events of 60 KiB: at most 120 MiB resident with WORKER_MEMORY_LIMIT=128M, 63 MiB with
// 64M
func TestLargeEventsFitTheBudget(t *testing.T) {
	const (
		size   = 60 << 10
		budget = 4 << 20
	)
	s := shared(t)
	const events = 150
	s.Publish(s.heavy(events, size)...)
	var in inbox
	config := s.config()
	config.MaxBytes = budget
	r := s.run(config, in.deliver)
	settled := 0
	for settled < events {
		sitetest.Eventually(t, "deliveries", func() bool { return in.len() > 0 })
		// Those not delivered are counted where they are: at the broker.
		if sent := events - settled - s.Depth(s.Names.Queue); sent*size > budget {
			t.Fatalf("%d events of %d bytes are on their way or here, the budget is %d", sent, size, budget)
		}
		for _, d := range in.take() {
			if d.Bytes < size {
				t.Fatalf("a delivery with a body of %d bytes is reckoned as %d", size, d.Bytes)
			}
			d.Settler.Settle(folded)
			settled++
		}
	}
	sitetest.Eventually(t, "all are acknowledged", func() bool { return r.Stats.Acked.Load() == events })
}

// Small events get all of the prefetch though a full one of large events would
// be over the budget.
//
// Promise(bounds/large-bodies)
func TestSmallEventsGetAllOfThePrefetch(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		s := newSite(t, rabbittest.Shared(t))
		s.Publish(s.Messages(2000)...)
		var in inbox
		config := s.config()
		config.MaxBytes, config.Ordered = 8<<20, ordered
		r := s.run(config, in.deliver)
		sitetest.Eventually(t, "more than half of the prefetch is here, with no verdict on any", func() bool { return in.len() > config.Prefetch/2 })
		if !ordered { // an ordered channel does with one consumer
			sitetest.Eventually(t, "the whole prefetch is here", func() bool { return in.len() == config.Prefetch })
		}
		r.stop()
		sitetest.Eventually(t, "no consumer", func() bool { return errors.Is(r.Ready(), errStopped) })
		_ = settleAtOnce(t.Context(), in.take())
	}
}

// Events grow large in mid-session: consuming stops above the budget, goes on
// with less, and none is lost or held for ever.
//
// Promise(bounds/large-bodies)
func TestEventsThatGrowLarge(t *testing.T) {
	const budget = 4 << 20
	s := shared(t)
	small := s.Messages(1200)
	s.Publish(small...)
	s.Publish(s.heavy(200, 60<<10)...)
	settle := func(_ context.Context, deliveries []profile.Delivery) error {
		for _, d := range deliveries {
			if d.Bytes < 60<<10 {
				d.Settler.Settle(folded)
				continue
			}
			time.AfterFunc(time.Duration(1+d.Event.UserID%7)*time.Millisecond, func() { d.Settler.Settle(folded) })
		}
		return nil
	}
	config := s.config()
	config.MaxBytes = budget
	r := s.run(config, settle)
	sitetest.Eventually(t, "all are acknowledged", func() bool { return r.Stats.Acked.Load() == 1400 })
	if r.Stats.Connects.Load() != 1 || r.Stats.Redelivered.Load() != 0 {
		t.Errorf("%d sessions, %d redelivered", r.Stats.Connects.Load(), r.Stats.Redelivered.Load())
	}
}

func TestSizes(t *testing.T) {
	z := newSizes(1000, 8<<20)
	if n := z.capacity(); n*(profile.MaxBodyBytes+messageBytes) > 8<<20 || n < 100 {
		t.Errorf("at first %d events of the largest size", n)
	}
	z.note(256, 256*(400+messageBytes))
	if n := z.capacity(); n != 1000 {
		t.Errorf("%d small events", n)
	}
	z.note(256, 256*(12<<10))
	if n := z.capacity(); n != 500 {
		t.Errorf("%d of middle size: those between a half and all count as half", n)
	}
	z.note(1, 4<<20)
	if n := z.capacity(); n < 50 || n > 200 {
		t.Errorf("%d after one giant among them", n)
	}
	z.note(1000, 1000*(16<<20))
	if n := z.capacity(); n != 1 {
		t.Errorf("%d giants", n)
	}
	if n := newSizes(1000, 0).capacity(); n != 1000 {
		t.Errorf("%d without a budget", n)
	}
}

// The prefetch grows while the consumers of the start go on: none is cancelled, and no
// message has to be settled for it. What is in force is told, also across a pause.
//
// Promise(batching/prefetch)
func TestPrefetchGrowsWithoutARestart(t *testing.T) {
	s := shared(t)
	var in inbox
	config := s.config()
	config.MaxBytes = 8 << 20
	r := s.run(config, in.deliver)
	sitetest.Eventually(t, "consuming", func() bool { return r.Ready() == nil })
	first := r.inForce()
	if room, ok := r.Room(); first > 130 || int64(room) != first || !ok {
		t.Fatalf("a prefetch of %d and room for %d, %v, at first", first, room, ok)
	}
	last := r.live.Load()
	s.Publish(s.Messages(2000)...)
	sitetest.Eventually(t, "the whole prefetch is here", func() bool { return in.len() == config.Prefetch })
	if room, _ := r.Room(); r.inForce() != int64(config.Prefetch) || room != 0 {
		t.Errorf("a prefetch of %d with %d here, and room for %d", r.inForce(), in.len(), room)
	}
	for _, l := range last.live() {
		if n := l.consumers.Load(); n != 2 {
			t.Errorf("channel %d has had %d consumers", l.index, n)
		}
	}
	r.Pause()
	s.unsubscribed()
	if _, ok := r.Room(); ok || r.inForce() != 0 {
		t.Errorf("a prefetch of %d while paused", r.inForce())
	}
	held := in.take()
	for _, d := range held[:600] {
		d.Settler.Settle(folded)
	}
	r.Resume()
	// One more for each channel whose messages are all held: its consumer has a prefetch of 1.
	sitetest.Eventually(t, "what is not held is delivered", func() bool { return in.len() >= 600 })
	if n := in.len(); n > 600+len(last.live()) {
		t.Errorf("%d delivered beside 400 that are held", n)
	}
	for _, d := range held[600:] {
		d.Settler.Settle(folded)
	}
	sitetest.Eventually(t, "the rest follows", func() bool { return in.len() == config.Prefetch && r.inForce() == int64(config.Prefetch) })
	_ = settleAtOnce(t.Context(), in.take())
}
