package rabbit

import "testing"

// A partition of another worker is given up after handOverLooks looks in a row at which the
// same message was the oldest that this worker holds, and not before.
func TestAStandInGivesUp(t *testing.T) {
	l := &consumerChannel{acks: &acks{}}
	l.unacked.Store(1)
	p := newPartition(&session{}, 0)
	p.channel.Store(l)
	p.want = wish{priority: -1, prefetch: 100}
	gaveUp := func() bool { return p.overdue.Swap(false) }
	look := func(n int) {
		for range n {
			p.relieve(true)
		}
	}
	look(handOverLooks)
	if gaveUp() {
		t.Fatalf("it gave up within %d looks", handOverLooks)
	}
	l.acks.below.Store(7) // the oldest was acknowledged, and another one is held
	look(handOverLooks)
	if gaveUp() {
		t.Fatal("it gave up although messages are acknowledged")
	}
	p.relieve(false) // no look at the workers
	if gaveUp() {
		t.Fatal("it gave up between two looks")
	}
	look(1)
	if !gaveUp() || len(p.wanted) != 1 {
		t.Fatal("it stays for ever")
	}
	for name, change := range map[string]func(){
		"the owner":        func() { p.want.owner = true },
		"one that is done": func() { p.want.owner = false; l.unacked.Store(0) },
	} {
		if change(); func() bool { look(3 * handOverLooks); return gaveUp() }() {
			t.Errorf("%s gave up", name)
		}
	}
}
