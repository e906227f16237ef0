package partition

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/source/rabbit/topology"
)

// A stand-in's consumer stays where only more of the prefetch became free.
//
// Promise(partitions/start)
func TestConsumersThatStay(t *testing.T) {
	for _, c := range []struct {
		have, want Desired
		stays      bool
	}{
		{Desired{true, 101, 8}, Desired{true, 102, 8}, true},
		{Desired{true, 101, 8}, Desired{true, 101, 9}, false},
		{Desired{true, 101, 8}, Desired{false, 101, 8}, false},
		{Desired{false, -1, 8}, Desired{false, -1, 9}, true},
		{Desired{false, -1, 8}, Desired{false, -1, 7}, false},
		{Desired{false, -1, 8}, Desired{false, -2, 8}, false},
		{Desired{false, -1, 8}, Desired{true, 101, 8}, false},
	} {
		if c.have.Satisfies(c.want) != c.stays {
			t.Errorf("%+v for %+v: %v", c.have, c.want, !c.stays)
		}
	}
}

// The broker delivers nothing to a worker that only stands in.
func TestAStandbyHasNoPrefetchInForce(t *testing.T) {
	if owner, standby := (Desired{true, 101, 8}).InForce(), (Desired{false, -1, 8}).InForce(); owner != 8 || standby != 0 {
		t.Errorf("%d of an owner, %d of a standby", owner, standby)
	}
}

// The number of workers has settled after several polls with one count, and at once for a
// worker whose partitions are fixed.
func TestWorkersSettle(t *testing.T) {
	m := &Membership{channel: new(amqp.Channel)}
	for ; !m.Settled(); m.polls++ {
		if m.polls > pollsToSettle {
			t.Fatal("never")
		}
	}
	if m.polls != pollsToSettle || !Alone().Settled() {
		t.Errorf("after %d polls; alone: %v", m.polls, Alone().Settled())
	}
}

// The owner's prefetch is the worker's, divided by the most partitions that a worker has; a
// standby's is divided by all. Retired queues are shared out on their own.
func TestAllotment(t *testing.T) {
	layout := topology.Layout{Partitions: 3, Retired: []int{3, 4}}
	for number, want := range []string{
		"[{true 100 33} {true 100 33} {false -1 20} {true 100 33} {false -1 20}]",
		"[{false -1 20} {false -1 20} {true 101 33} {false -1 20} {true 101 33}]",
	} {
		if got := fmt.Sprint(Allot(layout, number, 2, 100)); got != want {
			t.Errorf("worker %d: %s, want %s", number, got, want)
		}
	}
	if got := fmt.Sprint(Allot(topology.Layout{Retired: []int{7}}, 0, 1, 1), Allot(topology.Layout{}, 0, 1, 1)); got != "[{true 100 1}] []" {
		t.Error(got)
	}
}
