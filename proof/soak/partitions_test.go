package main

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
)

// A plan keeps the number of workers within its bounds, changes one thing at a time, and
// goes through all numbers of partitions and all kills of the stage.
func TestPartitionPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := partitionSettings{
			Seed:     rapid.Uint64().Draw(t, "seed"),
			Every:    time.Duration(rapid.IntRange(5, 40).Draw(t, "every")) * time.Second,
			Duration: 15 * time.Minute,
			Workers:  rapid.IntRange(fewestWorkers, 10).Draw(t, "workers"),
			Kills:    rapid.IntRange(0, 60).Draw(t, "kills"),
		}
		c.Partitions = rapid.SliceOfN(rapid.IntRange(1, 64), 1, 5).Draw(t, "partitions")
		plan := partitionPlan(c)
		if !slices.Equal(plan, partitionPlan(c)) {
			t.Fatal("the plan of a seed differs")
		}
		workers, kills, last := min(c.Workers, startWorkers), 0, -c.Every
		numbers := c.Partitions[:1:1]
		for _, st := range plan {
			if st.At < 0 || st.At >= c.Duration {
				t.Fatalf("%s at %v", st, st.At)
			}
			switch st.Do {
			case killStage:
				kills++
				continue
			case repartition:
				numbers = append(numbers, st.Count)
			case addWorker:
				workers++
			case dropWorker:
				workers--
			}
			if workers < fewestWorkers || workers > c.Workers {
				t.Fatalf("%d workers after %v", workers, st.At)
			}
			if st.At-last < c.Every/2 {
				t.Fatalf("%s only %v after the change before it", st, st.At-last)
			}
			last = st.At
		}
		if kills != c.Kills || !slices.Equal(numbers, c.Partitions) {
			t.Fatalf("%d kills and %v partitions, want %d and %v", kills, numbers, c.Kills, c.Partitions)
		}
	})
}

// looksOf has a watch see states one second apart; each partition has an owner and
// messages that wait.
func looksOf(w *watch, began time.Time, live []int, states ...[]partition) time.Time {
	for _, s := range states {
		began = began.Add(time.Second)
		w.see(look{at: began, live: live, queues: s, active: 3})
	}
	return began
}

func TestEvenness(t *testing.T) {
	owned := func(owners ...int) (all []partition) {
		for _, pid := range owners {
			all = append(all, partition{owner: pid})
		}
		return all
	}
	for _, c := range []struct {
		live   []int
		owners []partition
		even   bool
	}{
		{[]int{1, 2}, owned(1, 2, 1), true},
		{[]int{1, 2}, owned(1, 1, 1), false},
		{[]int{1, 2}, owned(1, 2, 0), false},
		{[]int{1, 2}, owned(1, 2, 9), false},
		{[]int{1, 2}, owned(1, 2), false}, // the third is not there yet
		{[]int{1, 2}, owned(1, 2, 1, 1, 1), true},
		{[]int{1, 2, 3, 4}, owned(1, 2, 3), true},
		{[]int{1, 2, 3, 4}, owned(1, 2, 2), false},
		{nil, owned(0, 0, 0), false},
	} {
		if l := (&look{live: c.live, queues: c.owners, active: 3}); l.even() != c.even {
			t.Errorf("%v over %v is even: %v", c.owners, c.live, l.even())
		}
	}
	if l := (&look{active: 1, queues: []partition{{messages: 5}, {}}}); !l.drained() {
		t.Error("messages of an active partition count as those of a retired one")
	}
	if l := (&look{active: 1, queues: []partition{{}, {messages: 5}}}); l.drained() {
		t.Error("a retired partition with messages counts as drained")
	}
}

// Partitions that become uneven again were not even before.
func TestTimeUntilEven(t *testing.T) {
	w, began := newWatch(), time.Now()
	even, uneven := []partition{{owner: 1}, {owner: 2}, {owner: 1}}, []partition{{owner: 1}, {owner: 1}, {owner: 1}}
	w.changed(addWorker, began)
	at := looksOf(w, began, []int{1, 2}, uneven, even, uneven, uneven, even, even)
	if c := w.changes[0]; !c.even.holds || c.even.took != 5*time.Second {
		t.Errorf("even after %v, want 5s", c.even)
	}
	if faults := w.slow(); len(faults) != 0 {
		t.Errorf("%q, want nothing slow", faults)
	}
	w.changed(dropWorker, at)
	w.see(look{at: at, live: []int{1, 2}, queues: even, active: 3}) // began before the change
	if w.changes[1].even.holds {
		t.Error("a look from before a change counts")
	}
	looksOf(w, at, []int{1, 2}, uneven)
	if faults := w.slow(); len(faults) != 1 || w.settled() {
		t.Errorf("%q, want one fault of partitions that are never even", faults)
	}
	looksOf(w, at.Add(evenLimit), []int{1, 2}, even)
	if faults := w.slow(); len(faults) != 1 || !w.settled() {
		t.Errorf("%q, want one fault of partitions that are even too late", faults)
	}
}

// A wait lasts from the last look without waiting messages to the next one, and is one of
// a moved partition if the owner has changed meanwhile.
func TestWaits(t *testing.T) {
	of := func(owner, ready int) []partition { return []partition{{owner: owner, ready: ready}} }
	w := newWatch()
	looksOf(w, time.Now(), []int{1, 2}, of(1, 0), of(1, 3), of(1, 0), of(2, 0), of(2, 0))
	if w.stayed != 2*time.Second || w.moved != 0 {
		t.Errorf("%v in a partition that moved and %v in others, want 0 and 2s", w.moved, w.stayed)
	}
	looksOf(w, time.Now(), []int{1, 2}, of(2, 0), of(2, 1), of(2, 9), of(1, 9), of(1, 0), of(1, 0))
	if w.moved != 4*time.Second {
		t.Errorf("%v in a partition that moved, want 4s", w.moved)
	}
	looksOf(w, time.Now(), []int{1, 2}, of(1, 0), of(2, 0), of(2, 1))
	if w.stayed != 2*time.Second || w.moved != 4*time.Second {
		t.Errorf("%v and %v: a move before the wait counts", w.moved, w.stayed)
	}
	if len(w.slow()) != 0 {
		t.Errorf("%v", w.slow())
	}
	states := make([][]partition, int(waitLimit/time.Second)+1)
	for i := range states {
		states[i] = of(1, 1)
	}
	looksOf(w, time.Now(), []int{1, 2}, append([][]partition{of(2, 0)}, states...)...)
	if len(w.slow()) != 1 {
		t.Errorf("%q after a wait of %v, want a fault", w.slow(), w.moved)
	}
}

func TestPIDOfAConsumer(t *testing.T) {
	for tag, want := range map[string]int{
		"keyfold worker some-host:4711 v1.2.3 1.2.3": 4711, "keyfold worker h:1  1.2.3": 1, "": 0, "ctag1": 0, "a:b": 0,
	} {
		if got := pidOf(tag); got != want {
			t.Errorf("%q: process %d, want %d", tag, got, want)
		}
	}
}

// Half of the messages go by slot, with the body and the id they had.
func TestSendBySlot(t *testing.T) {
	traffic, err := newTraffic(seed, 2000, "", busyShare)
	must.OK(t, err)
	names, busy, slotted := rabbit.DefaultNames(), 0, 0
	messages := slices.Clone(traffic.messages)
	sendBySlot(rand.New(rand.NewPCG(seed, 1)), messages)
	for i, m := range messages {
		if string(m.Body) != string(traffic.messages[i].Body) || m.ID != traffic.messages[i].ID {
			t.Fatalf("message %d is another", i)
		}
		e, good := parse(m.Body)
		if good && e.UserID == hotUser {
			busy++
		}
		if m.Exchange != names.Slots {
			continue
		}
		slotted++
		if good && m.RoutingKey != names.SlotKey(engine.SlotOf(e.UserID)) {
			t.Errorf("user %d goes to slot %s", e.UserID, m.RoutingKey)
		}
	}
	if n := len(messages); slotted < n/3 || slotted > n*2/3 || busy < n/20 || busy > n/5 {
		t.Errorf("of %d messages %d go by slot and %d are the busy user's", n, slotted, busy)
	}
}

// Half a minute of workers that come and go over partitions, whose number changes, and of
// kills of the stage: cmd/keyfold's TestPartitionKill9 holds the same of fewer processes.
//
// Promise(proof/partitions): Real processes over partitions, under kills and changes of workers and of
// their number, lose and double nothing.
// Figure: 15 min: 89,990 messages, 50 kills of the stage, 113 moves of partitions: 0 lost, 0 doubled
func TestShortPartitionsSoak(t *testing.T) {
	long(t)
	t.Parallel()
	built, err := programs()
	must.OK(t, err)
	c := partitionSettings{
		Seed: seed, Duration: 40 * time.Second, Every: 10 * time.Second, Workers: 3, Partitions: []int{8, 16, 8}, Kills: 5,
		Rate: 60, Dimensions: 64, Data: os.Getenv("KEYFOLD_TEST_DATA"),
		Programs: built, Dir: t.TempDir(), Out: t.Output(),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	p, err := runPartitions(ctx, c)
	if p != nil {
		p.report()
	}
	if err != nil {
		t.Fatalf("seed %d: %v", c.Seed, err)
	}
	if n := p.counts[killStage]; n != c.Kills {
		t.Errorf("the stage was killed %d times, want %d", n, c.Kills)
	}
	if n := p.counts[addWorker] + p.counts[dropWorker] + p.counts[killWorker]; n != 3 {
		t.Errorf("%d changes of workers, want 3", n)
	}
	if p.fleet.total("keyfold_partition_moves_total") == 0 {
		t.Error("no partition has moved: the run proves nothing")
	}
	if p.fleet.total("keyfold_retries_total") == 0 {
		t.Error("no event was ever retried: the run proves nothing of retries")
	}
	if len(p.ledger.poison) == 0 || p.ledger.oracle.Repeated == 0 {
		t.Errorf("%d poison, %d repeated: the traffic is too tame", len(p.ledger.poison), p.ledger.oracle.Repeated)
	}
}

// The time to the profile is that of an event's first message.
func TestDelays(t *testing.T) {
	traffic, err := newTraffic(seed, 400, "", 0)
	must.OK(t, err)
	d, began := delays{map[sentKey]sent{}}, time.UnixMilli(1_700_000_000_000)
	d.add(traffic.messages, began)
	d.add(traffic.messages, began.Add(time.Hour))
	profiles := map[int32]*profile.Profile{}
	for key := range d.sent {
		profiles[key.user] = &profile.Profile{Applied: profile.Applied{
			Groups: []profile.Group{{At: engine.MillisOf(began.Add(3 * time.Second)), Count: 1}}, IDs: []profile.AppliedID{key.id},
		}}
	}
	lines := d.report(profiles)
	if len(lines) != 1 || len(profiles) == 0 || !strings.Contains(lines[0], "by the common exchange: p50 3s, p99 3s, at most 3s") {
		t.Errorf("%q of %d profiles, want 3s each", lines, len(profiles))
	}
}
