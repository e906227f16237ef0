package rabbit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// unset is a site that is not set up.
func unset(t testing.TB) *site {
	b := sharedBroker(t)
	vhost := b.VHost(t)
	return &site{t: t, broker: b, vhost: vhost, dsn: b.DSN(vhost), names: DefaultNames()}
}

func (s *site) partition(n int, delays ...time.Duration) Topology {
	s.t.Helper()
	topology := Topology{Names: s.names, Partitions: n, RetryDelays: delays}
	if err := Setup(s.t.Context(), s.dsn, topology); err != nil {
		s.t.Fatalf("%d partitions: %v", n, err)
	}
	return topology
}

// ofSlots returns one event of each slot, which goes by slot.
func (s *site) ofSlots(round int) []Message {
	all := make([]Message, engine.Slots)
	for user, n := int32(1), 0; n < len(all); user++ {
		slot := engine.SlotOf(user)
		if all[slot].ID != "" {
			continue
		}
		n++
		i := round*engine.Slots + slot
		b := bytes.Replace(body(i), fmt.Appendf(nil, `"user_id":%d,`, i%500+1), fmt.Appendf(nil, `"user_id":%d,`, user), 1)
		e := event(s.t, b)
		all[slot] = s.names.SlotMessage(b, &e)
	}
	return all
}

// empty empties queues and returns how often each message id came; a queue that is not
// there has none.
func (s *site) empty(queues ...string) map[string]int {
	s.t.Helper()
	came := map[string]int{}
	for _, queue := range queues {
		conn, err := amqp.Dial(s.dsn)
		if err != nil {
			s.t.Fatal(err)
		}
		ch, err := conn.Channel()
		if err != nil {
			s.t.Fatal(err)
		}
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if refusal, is := errors.AsType[*amqp.Error](err); is && refusal.Code == amqp.NotFound {
			conn.Close()
			continue
		}
		deliveries, err := ch.Consume(queue, "", true, false, false, false, nil) // a queue with one active consumer knows no other way
		if err != nil {
			s.t.Fatal(err)
		}
		for range q.Messages {
			d := <-deliveries
			came[d.MessageId]++
		}
		conn.Close()
	}
	return came
}

func (n Names) partitionQueues(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, n.PartitionQueue(i))
	}
	return all
}

// told returns the numbers of partitions that the layout exchange tells.
func (s *site) told() (all []int) {
	s.t.Helper()
	var keys []string
	for p := range MaxPartitions + 1 {
		keys = append(keys, s.names.LayoutKey(p))
	}
	hold, err := s.publisher(quick).facts(within(s.t, ample), s.names, keys...)
	if err != nil {
		s.t.Fatal(err)
	}
	for p, is := range hold {
		if is {
			all = append(all, p)
		}
	}
	return all
}

// After each setup a slot is bound to one partition, the one that its number and that of
// the partitions say, and the layout exchange tells the number.
func TestSlotsHaveOnePartition(t *testing.T) {
	s := unset(t)
	partitions := 0
	for round, p := range []int{8, 16, 16, 8, 0, 4} {
		s.partition(p)
		if got := s.told(); !slices.Equal(got, []int{p}) {
			t.Errorf("%d partitions: the layout tells %v", p, got)
		}
		if p > 0 {
			partitions = p
		}
		all := s.ofSlots(round)
		s.publish(all...)
		for i := range partitions {
			came := s.empty(s.names.PartitionQueue(i))
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
		if came := s.empty(s.names.partitionQueues(partitions, 16)...); len(came) > 0 {
			t.Errorf("%d partitions: %d events in retired queues", p, len(came))
		}
		m := s.messages(1)[0]
		s.publish(m)
		taker, other := s.names.CommonQueue(), s.names.Queue
		if p == 0 {
			taker, other = other, taker
		}
		if s.empty(taker)[m.ID] != 1 || s.empty(other)[m.ID] != 0 {
			t.Errorf("%d partitions: an event without a slot is not in %s alone", p, taker)
		}
	}
}

// What is published while the number of partitions changes is in a queue, by slot and
// without one.
func TestNoEventIsLostWhilePartitionsChange(t *testing.T) {
	s := unset(t)
	s.setup()
	s.partition(8)
	stop, published := make(chan struct{}), []string(nil)
	var publishing sync.WaitGroup
	publishing.Go(func() {
		p := s.publisher(quick)
		for round := 0; !isClosed(stop); round++ {
			group := s.ofSlots(round)
			for i, m := range s.messages(8) {
				m.ID = fmt.Sprintf("common-%d-%d", round, i)
				group = append(group, m)
			}
			for i, err := range p.Publish(within(t, ample), group) {
				if err != nil {
					t.Errorf("%s with key %s: %v", group[i].Exchange, group[i].RoutingKey, err)
					return
				}
				published = append(published, group[i].ID)
			}
		}
	})
	for _, p := range []int{16, 8, 0, 4} {
		s.partition(p)
	}
	close(stop)
	publishing.Wait()
	came := s.empty(append(s.names.partitionQueues(0, 16), s.names.Queue, s.names.CommonQueue())...)
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
func TestWrongPartitionQueue(t *testing.T) {
	s := unset(t)
	s.setup()
	if _, err := s.channel().QueueDeclare(s.names.PartitionQueue(3), true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	err := Setup(t.Context(), s.dsn, Topology{Names: s.names, Partitions: 4})
	if engine.ReasonOf(err) != ReasonQueueMismatch {
		t.Fatal(err)
	}
	for _, part := range []string{"queue user_embedding_updates.03", "RABBITMQ_QUEUE_TYPE", "delete_queue"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	s.publish(s.messages(1)...)
	if n := s.depth(s.names.Queue); n != 1 {
		t.Errorf("%d events in the one queue", n)
	}
}

// Retired queues are told until they are deleted; setup deletes none.
func TestRetiredQueues(t *testing.T) {
	s := unset(t)
	delay := 7 * time.Second
	told := func(p int) string {
		t.Helper()
		retired, err := Retired(t.Context(), s.dsn, s.partition(p, delay))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, q := range retired {
			all = append(all, fmt.Sprintf("%s:%d", strings.TrimPrefix(q.Name, s.names.Queue), q.Ready))
		}
		return strings.Join(all, " ")
	}
	s.setup()
	s.publish(s.messages(2)...)
	for _, step := range []struct {
		partitions int
		want       string
	}{{3, ":2"}, {1, ":2 .01:0 .02:0"}, {0, ".slots.retry.7000:0 .common:0 .00:0 .01:0 .02:0"}, {2, ".retry.7000:0 :2 .02:0"}} {
		if got := told(step.partitions); got != step.want {
			t.Errorf("%d partitions: %q, want %q", step.partitions, got, step.want)
		}
	}
	for _, name := range []string{"", ".retry.7000", ".02"} {
		s.broker.DeleteQueue(t, s.vhost, s.names.Queue+name)
	}
	for range 2 {
		if got := told(2); got != "" {
			t.Errorf("still told: %q", got)
		}
	}
	if hold, err := s.publisher(quick).facts(within(t, ample), s.names, s.names.DeclaredKey(1), s.names.DeclaredKey(2)); err != nil || !hold[0] || hold[1] {
		t.Errorf("declared: %v, %v", hold, err)
	}
}

func TestCheckOfPartitions(t *testing.T) {
	s := unset(t)
	topology := s.partition(2)
	conn, err := amqp.Dial(s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := topology.check(conn, 0, 1); err != nil {
		t.Error(err)
	}
	topology.QueueType = Classic
	if err := topology.check(conn, 0, 1); engine.ReasonOf(err) != ReasonQueueMismatch {
		t.Errorf("classic: %v", err)
	}
	topology.QueueType = Quorum
	if err := topology.check(conn, 0, 1, 2); engine.ReasonOf(err) != ReasonQueueMissing || !strings.Contains(err.Error(), s.names.PartitionQueue(2)) {
		t.Errorf("a third one: %v", err)
	}
}

// A queue with priorities is not one without.
func TestCheckOfPriorities(t *testing.T) {
	s := unset(t)
	without := Topology{Names: s.names, NoPriorities: true}
	if err := Setup(t.Context(), s.dsn, without); err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := without.check(conn); err != nil {
		t.Error(err)
	}
	if err := (Topology{Names: s.names}).check(conn); engine.ReasonOf(err) != ReasonQueueMismatch || !strings.Contains(err.Error(), "RABBITMQ_PRIORITIES") {
		t.Error(err)
	}
}
