package consume

import (
	"testing"

	"keyfold/source/rabbit/partition"
)

// A partition of another worker is given up after handOverPolls polls in a row at which the
// same message was the oldest that this worker holds, and not before.
//
// Promise(partitions/stand-in): What a worker holds of another's partition and does not get written
// goes to the owner after 10 s.
func TestAStandInGivesUp(t *testing.T) {
	l := &consumerChannel{acks: &acks{}}
	l.unacked.Store(1)
	p := newPartitionConsumer(&session{}, 0)
	p.channel.Store(l)
	p.want = partition.Desired{Priority: -1, Prefetch: 100}
	gaveUp := func() bool { return p.overdue.Swap(false) }
	poll := func(n int) {
		for range n {
			p.relieve(true)
		}
	}
	poll(handOverPolls)
	if gaveUp() {
		t.Fatalf("it gave up within %d polls", handOverPolls)
	}
	l.acks.below.Store(7) // the oldest was acknowledged, and another one is held
	poll(handOverPolls)
	if gaveUp() {
		t.Fatal("it gave up although messages are acknowledged")
	}
	p.relieve(false) // no poll of the workers
	if gaveUp() {
		t.Fatal("it gave up between two polls")
	}
	poll(1)
	if !gaveUp() || len(p.wanted) != 1 {
		t.Fatal("it stays for ever")
	}
	for name, change := range map[string]func(){
		"the owner":        func() { p.want.Owner = true },
		"one that is done": func() { p.want.Owner = false; l.unacked.Store(0) },
	} {
		if change(); func() bool { poll(3 * handOverPolls); return gaveUp() }() {
			t.Errorf("%s gave up", name)
		}
	}
}
