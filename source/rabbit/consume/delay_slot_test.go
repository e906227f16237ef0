package consume

import (
	"log/slog"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// partitionOf returns a consumer's settings for one partition alone.
func (w *waiting) partitionOf(i int) Config {
	c := w.config()
	c.Names.Queue = w.Names.PartitionQueue(i)
	return c
}

// An event that waits for its next attempt comes back to the partition that has its slot
// by then: while it waits its slot has none, and then another.
//
// Promise(partitions/delayed): An event that waited for a retry comes back to the partition that has
// its slot by then; until there is one the broker keeps it.
func TestDelayedEventFindsItsSlot(t *testing.T) {
	b := sitetest.OwnBroker(t)
	// How soon the broker tries again where a dead letter found no queue, and how soon it
	// knows how many messages a queue holds.
	sitetest.SetEnv(t, b, "dead_letter_worker_publisher_confirm_timeout", 500)
	sitetest.SetEnv(t, b, "quorum_tick_interval", 200)
	w := &waiting{&site{sitetest.New(t, b)}, 50 * time.Millisecond}
	declared := w.partition(8, w.first)
	var mine []rabbit.Message
	for slot, m := range w.OfSlots(0) {
		if slot%8 == 3 {
			mine = append(mine, m)
		}
	}
	w.Publish(mine...)
	for slot := range engine.Slots {
		if slot%8 == 3 {
			must.OK(t, w.Channel().ExchangeUnbind(w.Names.InnerExchange(w.Names.Slots), w.Names.SlotKey(slot), w.Names.Slots, false, nil))
		}
	}
	d, first := w.retries(w.DSN, sitetest.Quiet), failFirst(1)
	w.runWith(d, w.partitionOf(3), first.deliver)
	delay := w.Names.RetryExchange(w.first)
	held := func() int {
		depths, err := b.Depths(w.VHost)
		must.OK(t, err)
		return depths[delay]
	}
	sitetest.Eventually(t, "all wait, although their slots have no queue", func() bool {
		return d.Stats.Replaced.Load() == int64(len(mine)) && w.Depth(delay) == 0 && held() == len(mine)
	})

	declared.Partitions = 16
	must.OK(t, topology.Setup(t.Context(), w.DSN, declared))
	moved := failFirst(0)
	w.runWith(d, w.partitionOf(11), moved.deliver)
	sitetest.Eventually(t, "each in its slot's partition", func() bool { return first.settled() == len(mine)/2 && moved.settled() == len(mine)/2 })
	sitetest.Eventually(t, "nothing left", func() bool { return held() == 0 })
	if len(first.wrong) > 0 || len(moved.wrong) != len(mine)/2 { // which had a first delivery elsewhere
		t.Error(first.wrong, moved.wrong)
	}
}

// Without the exchange of a delay, events that came by slot wait in process, and the log
// says what to do.
//
// Promise(partitions/no-delay-exchange): While the exchange of a delay is missing retries wait in
// process, and the log names the cure once.
func TestRetryExchangeMissing(t *testing.T) {
	w := &waiting{&site{sitetest.New(t, sitetest.Broker(t))}, 50 * time.Millisecond}
	w.partition(1)
	w.Publish(w.OfSlots(0)...)
	var log logtest.Buffer
	d, f := w.retries(w.DSN, slog.New(slog.NewTextHandler(&log, nil))), failFirst(1)
	r := w.runWith(d, w.partitionOf(0), f.deliver)
	sitetest.Eventually(t, "every event settled", func() bool { return f.settled() == engine.Slots && r.Stats.Acked.Load() == engine.Slots })
	if told := log.Count("run rabbit.Setup"); told != 1 || d.Stats.Replaced.Load() != 0 {
		t.Errorf("told %d times what to do; %d replaced", told, d.Stats.Replaced.Load())
	}
	w.partition(1, w.first)
	w.Publish(w.OfSlots(1)...)
	sitetest.Eventually(t, "through the delay queue", func() bool { return f.settled() == 2*engine.Slots && d.Stats.Replaced.Load() > 0 })
}
