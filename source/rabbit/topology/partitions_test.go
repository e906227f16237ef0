package topology

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// tsite is a virtual host that the test sets up.
type site struct{ *sitetest.Site }

// tnew returns one that is not set up.
func unset(t testing.TB) *site { return &site{sitetest.New(t, sitetest.Broker(t))} }

func (s *site) partition(n int, delays ...time.Duration) Config {
	s.T.Helper()
	topology := Config{Names: s.Names, Partitions: n, RetryDelays: delays}
	if err := Setup(s.T.Context(), s.DSN, topology); err != nil {
		s.T.Fatalf("%d partitions: %v", n, err)
	}
	return topology
}

func partitionQueues(n rabbit.Names, from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, n.PartitionQueue(i))
	}
	return all
}

// setup sets the site up with one classic queue.
func (s *site) setup() {
	s.T.Helper()
	must.OK(s.T, Setup(s.T.Context(), s.DSN, Config{Names: s.Names, QueueType: Classic}))
}

// told returns the numbers of partitions that the layout exchange tells.
func (s *site) told() (all []int) {
	s.T.Helper()
	var keys []string
	for p := range rabbit.MaxPartitions + 1 {
		keys = append(keys, s.Names.LayoutKey(p))
	}
	hold, err := facts(sitetest.Within(s.T, sitetest.Ample), s.Publisher(sitetest.Quick), s.Names, keys...)
	must.OK(s.T, err)
	for p, is := range hold {
		if is {
			all = append(all, p)
		}
	}
	return all
}

// After each setup a slot is bound to one partition, the one that its number and that of
// the partitions say, and the layout exchange tells the number.
//
// Promise(partitions/slots): A user has one of 64 slots for ever, its partition follows from the
// number, and the scaler counts ready messages alone.
// Promise(partitions/one-queue)
func TestSlotsHaveOnePartition(t *testing.T) {
	s := unset(t)
	partitions := 0
	for round, p := range sitetest.AtLength([]int{4, 2, 0, 3}, 3) {
		s.partition(p)
		if got := s.told(); !slices.Equal(got, []int{p}) {
			t.Errorf("%d partitions: the layout tells %v", p, got)
		}
		if p > 0 {
			partitions = p
		}
		all := s.OfSlots(round)
		s.Publish(all...)
		for i := range partitions {
			came := s.Empty(s.Names.PartitionQueue(i))
			for slot, m := range all {
				want := 0
				if slot%partitions == i {
					want = 1
				}
				if came[m.ID] != want {
					t.Errorf("%d partitions: slot %d came %d times in partition %d, want %d", p, slot, came[m.ID], i, want)
				}
			}
		}
		if came := s.Empty(partitionQueues(s.Names, partitions, 4)...); len(came) > 0 {
			t.Errorf("%d partitions: %d events in retired queues", p, len(came))
		}
		m := s.Messages(1)[0]
		s.Publish(m)
		taker, other := s.Names.CommonQueue(), s.Names.Queue
		if p == 0 {
			taker, other = other, taker
		}
		if s.Empty(taker)[m.ID] != 1 || s.Empty(other)[m.ID] != 0 {
			t.Errorf("%d partitions: an event without a slot is not in %s alone", p, taker)
		}
	}
}

// What is published while the number of partitions changes is in a queue, by slot and
// without one.
//
// Promise(partitions/one-queue)
func TestNoEventIsLostWhilePartitionsChange(t *testing.T) {
	s := unset(t)
	s.setup()
	s.partition(4)
	stop, published := make(chan struct{}), []string(nil)
	var publishing sync.WaitGroup
	publishing.Go(func() {
		p := s.Publisher(sitetest.Quick)
		for round := 0; !rabbit.IsClosed(stop); round++ {
			group := s.OfSlots(round)
			for i, m := range s.Messages(8) {
				m.ID = fmt.Sprintf("common-%d-%d", round, i)
				group = append(group, m)
			}
			for i, err := range p.Publish(sitetest.Within(t, sitetest.Ample), group) {
				if err != nil {
					t.Errorf("%s with key %s: %v", group[i].Exchange, group[i].RoutingKey, err)
					return
				}
				published = append(published, group[i].ID)
			}
		}
	})
	for _, p := range []int{6, 3, 0} {
		s.partition(p)
	}
	close(stop)
	publishing.Wait()
	came := s.Empty(append(partitionQueues(s.Names, 0, 8), s.Names.Queue, s.Names.CommonQueue())...)
	for _, id := range published {
		if came[id] == 0 {
			t.Fatalf("%s is lost", id)
		}
	}
	if len(published) == 0 {
		t.Error("nothing was published")
	}
}

// A queue of a partition that is there with other arguments is named with the cure, and
// no binding has changed.
//
// Promise(partitions/other-arguments): A partition's queue with other arguments keeps setup from
// changing bindings and a worker from starting; both name the cure.
func TestWrongPartitionQueue(t *testing.T) {
	s := unset(t)
	s.setup()
	if _, err := s.Channel().QueueDeclare(s.Names.PartitionQueue(3), true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	err := Setup(t.Context(), s.DSN, Config{Names: s.Names, Partitions: 4})
	if engine.ReasonOf(err) != rabbit.ReasonQueueMismatch {
		t.Fatal(err)
	}
	for _, part := range []string{"queue user_embedding_updates.03", "topology.Config.QueueType", "delete_queue"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	s.Publish(s.Messages(1)...)
	if n := s.Depth(s.Names.Queue); n != 1 {
		t.Errorf("%d events in the one queue", n)
	}
}

// Retired queues are told until they are deleted; setup deletes none.
//
// Promise(partitions/retired): Setup lists the queues of another number of partitions with the
// commands that delete them, and deletes none.
func TestRetiredQueues(t *testing.T) {
	s := unset(t)
	delay := 7 * time.Second
	told := func(p int) string {
		t.Helper()
		retired, err := Retired(t.Context(), s.DSN, s.partition(p, delay))
		must.OK(t, err)
		var all []string
		for _, q := range retired {
			all = append(all, fmt.Sprintf("%s:%d", strings.TrimPrefix(q.Name, s.Names.Queue), q.Ready))
		}
		return strings.Join(all, " ")
	}
	s.setup()
	s.Publish(s.Messages(2)...)
	for _, step := range []struct {
		partitions int
		want       string
	}{{3, ":2"}, {1, ":2 .01:0 .02:0"}, {0, ".slots.retry.7000:0 .common:0 .00:0 .01:0 .02:0"}, {2, ".retry.7000:0 :2 .02:0"}} {
		if got := told(step.partitions); got != step.want {
			t.Errorf("%d partitions: %q, want %q", step.partitions, got, step.want)
		}
	}
	for _, name := range []string{"", ".retry.7000", ".02"} {
		s.Broker.DeleteQueue(t, s.VHost, s.Names.Queue+name)
	}
	for range 2 {
		if got := told(2); got != "" {
			t.Errorf("still told: %q", got)
		}
	}
	if hold, err := facts(sitetest.Within(t, sitetest.Ample), s.Publisher(sitetest.Quick), s.Names, s.Names.DeclaredKey(1), s.Names.DeclaredKey(2)); err != nil || !hold[0] || hold[1] {
		t.Errorf("declared: %v, %v", hold, err)
	}
}

func TestCheckOfPartitions(t *testing.T) {
	s := unset(t)
	topology := s.partition(2)
	conn, err := amqp.Dial(s.DSN)
	must.OK(t, err)
	defer conn.Close()
	if err := topology.Check(conn, 0, 1); err != nil {
		t.Error(err)
	}
	topology.QueueType = Classic
	if err := topology.Check(conn, 0, 1); engine.ReasonOf(err) != rabbit.ReasonQueueMismatch {
		t.Errorf("classic: %v", err)
	}
	topology.QueueType = Quorum
	if err := topology.Check(conn, 0, 1, 2); engine.ReasonOf(err) != rabbit.ReasonQueueMissing || !strings.Contains(err.Error(), s.Names.PartitionQueue(2)) {
		t.Errorf("a third one: %v", err)
	}
}

// A queue with priorities is not one without.
func TestCheckOfPriorities(t *testing.T) {
	s := unset(t)
	without := Config{Names: s.Names, NoPriorities: true}
	must.OK(t, Setup(t.Context(), s.DSN, without))
	conn, err := amqp.Dial(s.DSN)
	must.OK(t, err)
	defer conn.Close()
	if err := without.Check(conn); err != nil {
		t.Error(err)
	}
	if err := (Config{Names: s.Names}).Check(conn); engine.ReasonOf(err) != rabbit.ReasonQueueMismatch || !strings.Contains(err.Error(), "topology.Config.Priorities") {
		t.Error(err)
	}
}
