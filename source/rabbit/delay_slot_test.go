package rabbit

import (
	"log/slog"
	"testing"
	"time"

	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
)

// partitionOf returns a consumer's settings for one partition alone.
func (w *waiting) partitionOf(i int) Config {
	c := w.config()
	c.Names.Queue = w.names.PartitionQueue(i)
	return c
}

// An event that waits for its next attempt comes back to the partition that has its slot
// by then: while it waits its slot has none, and then another.
func TestDelayedEventFindsItsSlot(t *testing.T) {
	t.Parallel()
	b := rabbittest.Start(t)
	// How soon the broker tries again where a dead letter found no queue, and how soon it
	// knows how many messages a queue holds.
	if _, err := b.Eval("application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 500), " +
		"application:set_env(rabbit, quorum_tick_interval, 200)."); err != nil {
		t.Fatal(err)
	}
	vhost := b.VHost(t)
	w := &waiting{&site{t: t, broker: b, vhost: vhost, dsn: b.DSN(vhost), names: DefaultNames()}, 50 * time.Millisecond}
	topology := w.partition(8, w.first)
	var mine []Message
	for slot, m := range w.ofSlots(0) {
		if slot%8 == 3 {
			mine = append(mine, m)
		}
	}
	w.publish(mine...)
	for slot := range engine.Slots {
		if slot%8 == 3 {
			if err := w.channel().ExchangeUnbind(w.names.InnerExchange(w.names.Slots), w.names.SlotKey(slot), w.names.Slots, false, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	d, first := w.retries(w.dsn, quiet), failFirst(1)
	w.runWith(d, w.partitionOf(3), first.deliver)
	delay := w.names.RetryExchange(w.first)
	held := func() int {
		depths, err := b.Depths(vhost)
		if err != nil {
			t.Fatal(err)
		}
		return depths[delay]
	}
	eventually(t, "all wait, although their slots have no queue", func() bool {
		return d.Stats.Replaced.Load() == int64(len(mine)) && w.depth(delay) == 0 && held() == len(mine)
	})

	topology.Partitions = 16
	if err := Setup(t.Context(), w.dsn, topology); err != nil {
		t.Fatal(err)
	}
	moved := failFirst(0)
	w.runWith(d, w.partitionOf(11), moved.deliver)
	eventually(t, "each in its slot's partition", func() bool { return first.settled() == len(mine)/2 && moved.settled() == len(mine)/2 })
	eventually(t, "nothing left", func() bool { return held() == 0 })
	if len(first.wrong) > 0 || len(moved.wrong) != len(mine)/2 { // which had a first delivery elsewhere
		t.Error(first.wrong, moved.wrong)
	}
}

// Without the exchange of a delay, events that came by slot wait in process, and the log
// says what to do.
func TestRetryExchangeMissing(t *testing.T) {
	w := &waiting{unset(t), 50 * time.Millisecond}
	w.partition(1)
	w.publish(w.ofSlots(0)...)
	var log buffer
	d, f := w.retries(w.dsn, slog.New(slog.NewTextHandler(&log, nil))), failFirst(1)
	r := w.runWith(d, w.partitionOf(0), f.deliver)
	eventually(t, "every event settled", func() bool { return f.settled() == engine.Slots && r.Stats.Acked.Load() == engine.Slots })
	if told := log.count("run `keyfold setup`"); told != 1 || d.Stats.Replaced.Load() != 0 {
		t.Errorf("told %d times what to do; %d replaced", told, d.Stats.Replaced.Load())
	}
	w.partition(1, w.first)
	w.publish(w.ofSlots(1)...)
	eventually(t, "through the delay queue", func() bool { return f.settled() == 2*engine.Slots && d.Stats.Replaced.Load() > 0 })
}
