package consume

import (
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// fixed has a member consume these partitions only.
func fixed(indexes ...int) func(*Config) {
	return func(c *Config) { c.Partitions.Only = indexes }
}

// Workers with partitions of their own get the events of these, each once. Any broker
// can do that.
func TestFixedPartitions(t *testing.T) {
	f := newFleet(partitioned(t, sitetest.Broker(t), 5))
	a, b := f.join("a", fixed(0, 2)), f.join("b", fixed(1, 3, 4))
	f.Publish(f.Slotted(1000)...)
	sitetest.Eventually(t, "every event", func() bool { events, _, _ := f.count(); return events == 1000 })
	if _, again, split := f.count(); again != 0 || split != 0 {
		t.Errorf("%d came again, %d to a second worker", again, split)
	}
	for name, want := range map[*member][]int{a: {0, 2}, b: {1, 3, 4}} {
		var got, mine []int
		for i := range rabbit.MaxPartitions {
			if name.Stats.Partitions.Events[i].Load() > 0 {
				got = append(got, i)
			}
			if name.Stats.Partitions.Mine[i].Load() {
				mine = append(mine, i)
			}
		}
		if !slices.Equal(got, want) || !slices.Equal(mine, want) || name.Stats.Partitions.Owned.Load() != int64(len(want)) {
			t.Errorf("%s got events of partitions %v, want %v", name.name, got, want)
		}
	}
	if err := errorsOf(a, b); err != nil {
		t.Error(err)
	}
}

func errorsOf(members ...*member) (err error) {
	for _, m := range members {
		if err == nil {
			err = m.Ready()
		}
	}
	return err
}

// faultOf runs a worker of partitions against a broker that cannot serve it.
func faultOf(t *testing.T, s *site, only []int) error {
	t.Helper()
	config := s.config()
	config.Partitions = &Partitions{Only: only}
	c, err := New(config, Ports{Retries: InProcess{}, Log: sitetest.Quiet, Layout: s.Publisher(sitetest.Quick)})
	must.OK(t, err)
	err = c.Run(sitetest.Within(t, sitetest.Ample), Events(settleAtOnce))
	if closing := c.Close(t.Context()); closing != nil {
		t.Error(closing)
	}
	if engine.KindOf(err) != engine.Configuration {
		t.Errorf("%v is no configuration fault", err)
	}
	return err
}

// What is missing is said with its cure, before the first event is consumed.
func TestPartitionFaults(t *testing.T) {
	b := modern(t)
	one := newSite(t, b)
	if err := faultOf(t, one, nil); engine.ReasonOf(err) != topology.ReasonNotPartitioned || !strings.Contains(err.Error(), "rabbit.Setup with --partitions N") {
		t.Errorf("without partitions: %v", err)
	}
	if err := faultOf(t, partitioned(t, b, 2), []int{1, 2}); engine.ReasonOf(err) != rabbit.ReasonQueueMissing || !strings.Contains(err.Error(), ".02") {
		t.Errorf("with a partition that is missing: %v", err)
	}
	old := partitioned(t, rabbittest.SharedVersion(t, 3), 2)
	if err := faultOf(t, old, nil); engine.ReasonOf(err) != topology.ReasonNotPartitioned || !strings.Contains(err.Error(), "partition.Owned") {
		t.Errorf("on a broker that cannot share them out: %v", err)
	}
}

// The number of partitions is raised and lowered while workers run: the new ones are
// consumed, and what waits in the others comes too.
func TestNumberOfPartitionsChanges(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 2))
	a, b := f.join("a", nil), f.join("b", nil)
	f.owned([]*member{a, b}, 1, 1)
	stop := f.flow()
	f.partition(5)
	f.owned([]*member{a, b}, 2, 3)
	f.partition(3)
	// Five queues go on: three in use, shared out as 2 and 1, and two retired, one for each.
	sitetest.Eventually(t, "the change is seen", func() bool { return a.Stats.Partitions.Moves.Load()+b.Stats.Partitions.Moves.Load() > 0 })
	f.owned([]*member{a, b}, 2, 3)
	n := stop()
	moving := len(f.Empty(f.Names.CommonQueue())) // came while their slot had no queue
	sitetest.Eventually(t, "every event", func() bool { events, _, _ := f.count(); return events+moving == n })
	if err := errorsOf(a, b); err != nil {
		t.Error(err)
	}
}

// A partition queue that is deleted costs the session; the next one finds what there is.
func TestPartitionQueueDeleted(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 3))
	a := f.join("a", nil)
	f.owned([]*member{a}, 3)
	sitetest.Eventually(t, "consuming", func() bool { return a.Ready() == nil })
	f.Broker.DeleteQueue(t, f.VHost, f.Names.PartitionQueue(1))
	sitetest.Eventually(t, "the loss is told", func() bool { return engine.ReasonOf(a.Ready()) == rabbit.ReasonQueueMissing })
	f.partition(3)
	sitetest.Eventually(t, "consuming again", func() bool { return a.Ready() == nil })
	f.Publish(f.Slotted(300)...)
	sitetest.Eventually(t, "every event", func() bool { events, _, _ := f.count(); return events == 300 })
}

// An operator deletes the queues that are not used any more, as docs/UPGRADE.md says.
func TestRetiredQueueDeleted(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 3))
	f.partition(2)
	a := f.join("a", nil)
	f.owned([]*member{a}, 3)
	sitetest.Eventually(t, "consuming", func() bool { return a.Ready() == nil })
	before := a.Stats.Connects.Load()
	f.Broker.DeleteQueue(t, f.VHost, f.Names.PartitionQueue(2))
	f.owned([]*member{a}, 2)
	sitetest.Eventually(t, "consuming again", func() bool { return a.Ready() == nil && a.Stats.Connects.Load() > before })
	f.Publish(f.Slotted(300)...)
	sitetest.Eventually(t, "every event", func() bool { events, _, _ := f.count(); return events == 300 })
}

// A worker that pauses keeps its partitions with what it holds. Once it gives that back,
// the others get it.
func TestPauseKeepsPartitions(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 4))
	a, b := f.join("a", nil), f.join("b", nil)
	f.owned([]*member{a, b}, 2, 2)
	sitetest.Eventually(t, "both consume", func() bool { return errorsOf(a, b) == nil })
	a.hold()
	f.Publish(f.Slotted(200)...)
	sitetest.Eventually(t, "every event", func() bool { events, _, _ := f.count(); return events == 200 })
	a.Pause()
	c := f.join("c", nil) // has a claim on one of the four
	sitetest.Eventually(t, "the third worker is counted", func() bool { return b.Stats.Partitions.Workers.Load() == 3 })
	f.Publish(f.Slotted(400)[200:]...)
	time.Sleep(500 * time.Millisecond) // ten polls
	events, again, split := f.count()
	if again != 0 || split != 0 || events == 400 {
		t.Errorf("in a pause: %d of 400 events, %d came again, %d to a second worker", events, again, split)
	}
	a.GiveBack()
	sitetest.Eventually(t, "the others have all of it", func() bool { events, again, _ := f.count(); return events == 400 && again > 0 })
	a.Resume()
	f.owned([]*member{a, b, c}, 1, 1, 2)
}

// What a worker holds is bounded by the prefetch, also where it stands in for others.
//
// Promise(partitions/stand-in)
func TestPrefetchBoundsPartitions(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 4))
	keep := func(c *Config) { c.Prefetch = 40 }
	stubborn := f.join("a", keep)
	deafen(stubborn)
	f.owned([]*member{stubborn}, 4)
	f.Publish(f.Slotted(1000)...)
	ready := func() (n int) {
		for i := range 4 {
			n += f.Depth(f.Names.PartitionQueue(i))
		}
		return n
	}
	// Of the 40 a worker that took no event before its prefetch grew has 9 for each partition.
	sitetest.Eventually(t, "the prefetch is used up", func() bool { return stubborn.share() >= 36 })
	time.Sleep(300 * time.Millisecond)
	if n, held := ready(), stubborn.share(); n != 1000-held || held > 40 {
		t.Errorf("%d are ready and %d held of 1000, with a prefetch of 40", n, held)
	}
	// A second worker gets its half at last, though the first writes nothing.
	other := f.join("b", keep)
	f.owned([]*member{stubborn, other}, 2, 2)
	moved := func() (n int) {
		for i := 2; i < 4; i++ { // those of the second of two workers
			n += f.Depth(f.Names.PartitionQueue(i))
		}
		return n
	}
	sitetest.Eventually(t, "the moved partitions go on", func() bool { return moved() == 0 })
}

// Windows that wait for what the prefetch of their partition keeps out are closed.
func TestFullPartitionsCloseTheirWindows(t *testing.T) {
	f := newFleet(partitioned(t, sitetest.Broker(t), 2))
	a := f.join("a", func(c *Config) { c.Prefetch, c.Partitions.Only = 16, []int{0, 1} })
	a.hold()
	f.Publish(f.Slotted(300)...)
	sitetest.Eventually(t, "every event but those of the last windows", func() bool { events, _, _ := f.count(); return events == 300 })
}

// A worker that stops writes its windows first. Its partitions go to the others then, at
// once, and nothing comes twice.
//
// Promise(partitions/slots)
func TestStopHandsPartitionsOver(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 4))
	a, b := f.join("a", nil), f.join("b", nil)
	f.owned([]*member{a, b}, 2, 2)
	sitetest.Eventually(t, "both consume", func() bool { return errorsOf(a, b) == nil })
	a.hold()
	stop := f.flow()
	sitetest.Eventually(t, "the first holds some", func() bool { return a.share() > 50 })
	a.stop()
	must.OK(t, <-a.done)
	a.done <- nil
	time.Sleep(100 * time.Millisecond) // Router.Drain
	a.settle(func(int) bool { return true })
	if err := a.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	n := stop()
	sitetest.Eventually(t, "every event", func() bool { events, _, _ := f.count(); return events == n })
	if _, again, split := f.count(); again != 0 || split != 0 {
		t.Errorf("%d came again, %d to a second worker at once", again, split)
	}
	f.owned([]*member{b}, 4)
}

// The prefetch of partitions follows the size of events: large ones fit the budget, and
// small ones get all of the prefetch.
func TestPrefetchOfPartitionsFollowsSizes(t *testing.T) {
	const budget, size = 4 << 20, 40 << 10
	small := func(c *Config) {
		c.Partitions.Only = []int{0, 1}
		c.Prefetch, c.MaxBytes = 1000, budget
	}
	f := newFleet(partitioned(t, sitetest.Broker(t), 2))
	a := f.join("a", small)
	deafen(a)
	heavy := f.heavy(300, size)
	for i := range heavy {
		heavy[i].Exchange, heavy[i].RoutingKey = f.Names.Slots, f.Names.SlotKey(i%engine.Slots)
	}
	f.Publish(heavy...)
	sent := func() int { return 300 - f.Depth(f.Names.PartitionQueue(0)) - f.Depth(f.Names.PartitionQueue(1)) }
	sitetest.Eventually(t, "deliveries", func() bool { return a.share() >= 32 })
	time.Sleep(300 * time.Millisecond)
	if n := sent(); n*size > budget {
		t.Errorf("%d events of %d bytes are here, the budget is %d", n, size, budget)
	}
	a.settle(func(int) bool { return true })

	f = newFleet(partitioned(t, rabbittest.Shared(t), 2))
	a = f.join("a", small)
	f.Publish(f.Slotted(2500)[:500]...)
	sitetest.Eventually(t, "the first ones", func() bool { return a.Stats.Acked.Load() == 500 })
	deafen(a)
	f.Publish(f.Slotted(2500)[500:]...)
	sitetest.Eventually(t, "the whole prefetch is here", func() bool { return a.share() >= 1000 })
	time.Sleep(300 * time.Millisecond)
	if n := a.share(); n > 1500 {
		t.Errorf("%d events are held, with a prefetch of 1000 and at first half of it at most", n)
	}
}

// deafen has a member keep what comes, also where its windows are to be closed.
func deafen(m *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open, m.deaf = false, true
}
