package topology

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// steps are the declarations of a setup, one by one.
type steps struct {
	*site
	published []string
	round     int
	waits     bool // what is published by slot may be refused
}

// plan returns what a setup would declare now.
func (s *steps) plan(partitions int) (*rabbit.Channel, []declaration) {
	s.T.Helper()
	topology := Config{Names: s.Names, Partitions: partitions, QueueType: Classic}
	c, err := rabbit.OpenChannel(s.T.Context(), s.DSN, "setup", "test")
	must.OK(s.T, err)
	was, err := readState(s.T.Context(), c, s.Names, s.DSN)
	must.OK(s.T, err)
	all, err := topology.declarations(c, was)
	must.OK(s.T, err)
	return c, all
}

// parts sets up partitions of classic queues, which cost a test less.
func (s *steps) parts(n int) {
	s.T.Helper()
	if err := Setup(s.T.Context(), s.DSN, Config{Names: s.Names, Partitions: n, QueueType: Classic}); err != nil {
		s.T.Fatalf("%d partitions: %v", n, err)
	}
}

// publishAll publishes one event of each slot and one without a slot. Each must have a queue.
func (s *steps) publishAll(p *rabbit.Publisher, slots ...int) {
	s.T.Helper()
	s.round++
	group := s.Messages(1)
	group[0].ID = fmt.Sprintf("common-%d", s.round)
	of := s.OfSlots(s.round)
	for _, slot := range slots {
		of[slot].ID = fmt.Sprintf("%d of slot %d", s.round, slot)
		group = append(group, of[slot])
	}
	for i, err := range p.Publish(sitetest.Within(s.T, sitetest.Ample), group) {
		if s.waits && errors.Is(err, engine.ErrUnroutable) && group[i].Exchange == s.Names.Slots {
			continue
		}
		if err != nil {
			s.T.Fatalf("%s with key %s: %v", group[i].Exchange, group[i].RoutingKey, err)
		}
		s.published = append(s.published, group[i].ID)
	}
}

// eachSlot returns all slots.
func eachSlot() (all []int) {
	for slot := range engine.Slots {
		all = append(all, slot)
	}
	return all
}

// once checks that each event is in one queue.
func (s *steps) once() {
	s.T.Helper()
	came := s.Empty(append(partitionQueues(s.Names, 0, rabbit.MaxPartitions), s.Names.Queue, s.Names.CommonQueue())...)
	for _, id := range s.published {
		if came[id] != 1 {
			s.T.Fatalf("event %q is in %d queues", id, came[id])
		}
	}
	if len(s.published) < 64 {
		s.T.Errorf("only %d events were published", len(s.published))
	}
	s.published = nil
}

// changes reports whether a declaration can move events, as far as its name tells.
func (d declaration) changes(n rabbit.Names) bool {
	for _, exchange := range []string{n.Exchange, n.Slots} {
		if strings.HasSuffix(d.name, "to exchange "+exchange) || strings.HasSuffix(d.name, "to exchange "+n.InnerExchange(exchange)) {
			return true
		}
	}
	return false
}

// While a setup changes the number of partitions, an event that is published behind any of
// its declarations is in one queue, neither in none nor in two.
//
// Promise(partitions/one-queue): While the number of partitions changes an event is in one queue at
// any time, however long the queues are.
func TestEventsHaveOneQueueWhilePartitionsChange(t *testing.T) {
	s := &steps{site: unset(t)}
	p := s.Publisher(sitetest.Quick)
	s.setup()
	s.publishAll(p)
	before := 0
	for _, partitions := range sitetest.AtLength([]int{4, 6, 0}, 3, 0) {
		s.waits = before == 0 && partitions == 4 // nothing goes by slot before the first partitions
		s.stepThrough(p, partitions)
		before, s.waits = partitions, false
		s.publishAll(p, eachSlot()...)
		s.once()
	}
}

// stepThrough sets up partitions and publishes behind each declaration.
func (s *steps) stepThrough(p *rabbit.Publisher, partitions int) {
	s.T.Helper()
	c, all := s.plan(partitions)
	for i, d := range all {
		if err := d.declare(c.Channel); err != nil {
			s.T.Fatalf("%s: %v", d.name, err)
		}
		// Most removals are of bindings that there are not.
		every := map[bool]int{false: 3, true: 17}[strings.HasPrefix(d.name, "removal")]
		if d.changes(s.Names) && (sitetest.Long || i%every == 0) {
			s.publishAll(p, eachSlot()[i%7*9:i%7*9+10]...)
		}
	}
	_ = c.Disconnect(s.T.Context())
}

// earlier sets up as the version before the inner exchanges did: the queues are bound to the
// outer ones. With ended, the partitions were given up again later.
func (s *steps) earlier(partitions int, ended bool) {
	s.T.Helper()
	n, topology := s.Names, Config{Names: s.Names, Partitions: partitions, QueueType: Classic}
	all := []declaration{
		exchange(n.Exchange, amqp.ExchangeTopic), queue(n.Queue, Config{Names: n, QueueType: Classic}.mainArguments()),
		exchange(n.Slots, amqp.ExchangeDirect), exchange(n.LayoutExchange(), amqp.ExchangeDirect),
		queue(n.LayoutExchange(), layoutArguments), queue(n.CommonQueue(), topology.partitionArguments()),
	}
	for i := range partitions {
		all = append(all, queue(n.PartitionQueue(i), topology.partitionArguments()), binding(n.LayoutExchange(), n.DeclaredKey(i), n.LayoutExchange()))
	}
	for slot := range engine.Slots {
		all = append(all, binding(n.PartitionQueue(slot%partitions), n.SlotKey(slot), n.Slots))
	}
	taker := n.CommonQueue()
	if ended {
		taker, topology.Partitions = n.Queue, 0
	}
	all = append(append(all, topology.bindings(taker)...), topology.layout()...)
	channel := s.Channel()
	for _, d := range all {
		if err := d.declare(channel); err != nil {
			s.T.Fatalf("%s: %v", d.name, err)
		}
	}
}

// The same holds for the first setup of this version where an earlier one has set up
// partitions. Where that one gave them up again, it forgot their number: publishers by slot
// wait for a moment.
//
// Promise(partitions/earlier-version): The first setup over an earlier version's partitions puts the
// inner exchanges in between; an event is in one queue meanwhile.
func TestPartitionsOfAnEarlierVersion(t *testing.T) {
	for name, c := range map[string]struct {
		ended bool
		now   []int
	}{
		"same number": {false, sitetest.AtLength([]int{4}, 4)}, "another number": {false, []int{6}},
		"to one queue": {false, sitetest.AtLength([]int{0}, 3)}, "ended": {true, []int{0, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &steps{site: unset(t)}
			p := s.Publisher(sitetest.Quick)
			s.earlier(4, c.ended)
			s.waits = c.ended
			for _, partitions := range c.now {
				s.publishAll(p, eachSlot()...)
				s.stepThrough(p, partitions)
				s.publishAll(p, eachSlot()...)
				s.once()
			}
		})
	}
}

// A setup that is killed behind any of its declarations leaves events with one queue each,
// and so does the setup after it, whatever its number. The layout tells of a slot that was
// left without the queue of its partition.
//
// Promise(partitions/setup-killed): A `keyfold setup` killed amid a change keeps each event in one
// queue; `status` names slots without a partition; the next one goes on.
func TestSetupsThatAreKilled(t *testing.T) {
	s := &steps{site: unset(t)}
	p := s.Publisher(sitetest.Quick)
	s.setup()
	s.parts(4)
	rng := rand.New(rand.NewPCG(1, 2))
	told := 0
	for _, partitions := range sitetest.AtLength([]int{6, 3, 0}, 6, 3, 5, 0, 8, 8, 2, 7) {
		c, all := s.plan(partitions)
		for _, d := range all[:rng.IntN(len(all)+1)] {
			if err := d.declare(c.Channel); err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
		}
		was, err := readState(t.Context(), c, s.Names, s.DSN)
		must.OK(t, err)
		_ = c.Disconnect(t.Context())
		if len(was.open) > 0 {
			told++
		}
		s.publishAll(p, eachSlot()...)
	}
	s.once()
	if told == 0 {
		t.Error("no setup left a slot without its partition")
	}
	s.parts(5)
	s.publishAll(p, eachSlot()...)
	s.publishAll(p, eachSlot()...)
	for i := range 5 {
		if came := s.Empty(s.Names.PartitionQueue(i)); len(came) < 2*(engine.Slots/5) {
			t.Errorf("%d events in partition %d", len(came), i)
		}
	}
}

// Two setups with different numbers come one after the other, and each slot has one queue.
//
// Promise(partitions/two-setups): Of two `keyfold setup` at once one follows the other, and each slot
// has one queue.
func TestSetupsAtOnce(t *testing.T) {
	s := &steps{site: unset(t)}
	p := s.Publisher(sitetest.Quick)
	s.setup()
	s.parts(2)
	var setups sync.WaitGroup
	for _, partitions := range []int{8, 3, 5} {
		setups.Go(func() {
			if err := Setup(t.Context(), s.DSN, Config{Names: s.Names, Partitions: partitions, QueueType: Classic}); err != nil {
				t.Errorf("%d partitions: %v", partitions, err)
			}
		})
	}
	setups.Wait()
	told := s.told()
	if len(told) != 1 || told[0] != 8 && told[0] != 3 && told[0] != 5 {
		t.Fatalf("the layout tells %v", told)
	}
	s.publishAll(p, eachSlot()...)
	s.publishAll(p, eachSlot()...)
	came := s.Empty(partitionQueues(s.Names, 0, told[0])...)
	for _, id := range s.published {
		if !strings.HasPrefix(id, "common") && came[id] != 1 {
			t.Errorf("event %q is in %d partitions", id, came[id])
		}
	}
}

// A setup without a number that waits for another one keeps the number which that one sets.
func TestSetupKeepsTheNumberOfTheOneBefore(t *testing.T) {
	s := &steps{site: unset(t)}
	s.setup()
	s.parts(2)
	other, all := s.plan(5)
	must.OK(t, lock(t.Context(), other, s.Names))
	kept := make(chan error, 1)
	go func() { kept <- Setup(t.Context(), s.DSN, Config{Names: s.Names, Keep: true, QueueType: Classic}) }()
	for _, d := range all {
		must.OK(t, d.declare(other.Channel))
	}
	must.OK(t, other.Disconnect(t.Context()))
	must.OK(t, <-kept)
	if told := s.told(); len(told) != 1 || told[0] != 5 {
		t.Errorf("the layout tells %v, want 5", told)
	}
}

// Without the queue in which setups note the layout, a setup that is told no number says so
// and changes nothing, and one that is told a number keeps each event in one queue.
//
// Promise(partitions/lost-layout): After the queue of the layout was deleted `keyfold setup` asks for
// the number; with one each event stays in one queue.
func TestSetupWhoseNotesAreLost(t *testing.T) {
	for _, partitions := range sitetest.AtLength([]int{0, 3}, 4) {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			s := &steps{site: unset(t)}
			p := s.Publisher(sitetest.Quick)
			s.setup()
			s.parts(4)
			s.Broker.DeleteQueue(t, s.VHost, s.Names.LayoutExchange())
			err := Setup(t.Context(), s.DSN, Config{Names: s.Names, QueueType: Classic, Keep: true})
			if engine.ReasonOf(err) != ReasonSetupInterrupted || !strings.Contains(err.Error(), "--partitions") {
				t.Errorf("without a number: %v", err)
			}
			s.publishAll(p, eachSlot()...)
			s.stepThrough(p, partitions)
			s.publishAll(p, eachSlot()...)
			s.once()
		})
	}
}

// Queues stay bound to the inner exchange where the exchange of slots was deleted: the next
// setup takes them from there.
func TestSetupWithoutTheExchangeOfSlots(t *testing.T) {
	s := &steps{site: unset(t)}
	p := s.Publisher(sitetest.Quick)
	s.setup()
	s.parts(4)
	must.OK(t, s.Channel().ExchangeDelete(s.Names.Slots, false, false))
	s.parts(3)
	s.publishAll(p, eachSlot()...)
	s.once()
}
