package partitioner

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
)

// Events of the common queue and of the single queue used before partitions come into their user's
// partition, each user's in their order, with all that they carried.
//
// Promise(partitions/common-exchange): `keyfold partition` publishes an event without a slot to its
// user's partition before it acknowledges it, in order and with all it carries.
func TestEventsComeIntoTheirPartition(t *testing.T) {
	s := newSite(t)
	const n, users = 900, 31
	var common, old []rabbit.Message
	for i := range n {
		m := s.foreign(i%users+1, i)
		m.Priority, m.Properties.AppID = uint8(i%4), "shop"
		m.Headers = map[string]any{"trace": fmt.Sprint(i)}
		if i%users < 10 {
			m.Exchange, m.RoutingKey = "", s.names.Queue // as before partitions
			m.Headers[rabbit.HeaderFirstSeen], m.Headers[rabbit.HeaderAttempts] = int64(5), int32(2)
			m.Headers[rabbit.HeaderErrors], m.Headers[rabbit.HeaderExchange] = `[{"at":1,"error":"503"}]`, "user_events"
			m.Priority = 5 // or a classic queue does not keep the order
			old = append(old, m)
			continue
		}
		common = append(common, m)
	}
	s.publish(old...)
	s.publish(common...)
	st := s.run()
	must.Hold(t, "all are in a partition", func() bool { return st.Stats.Partitioned.Load() == n && st.acked() == n })
	came := 0
	newest := map[int32]int{}
	for i := range partitions {
		for _, d := range s.take(s.names.PartitionQueue(i), 1) {
			came++
			e, err := profile.ParseEvent(d.Body, time.Now())
			must.OK(t, err)
			var number int
			fmt.Sscanf(e.MessageID, "m%d", &number)
			want := common[0]
			if number%users < 10 {
				want = old[0]
			}
			if engine.SlotOf(e.UserID)%partitions != i || d.RoutingKey != s.names.SlotKey(engine.SlotOf(e.UserID)) || d.Exchange != s.names.Slots {
				t.Errorf("user %d came into partition %d under %q", e.UserID, i, d.RoutingKey)
			}
			if before, met := newest[e.UserID]; met && before >= number {
				t.Errorf("user %d: %d came behind %d", e.UserID, number, before)
			}
			newest[e.UserID] = number
			o := rabbit.OriginalOf(&d)
			if d.MessageId != e.MessageID || d.AppId != "shop" || d.Timestamp.IsZero() || d.Headers["trace"] != fmt.Sprint(number) || o.Origin() != "user_events" ||
				o.Integer(rabbit.HeaderFirstSeen) != int64(first(want.Headers[rabbit.HeaderFirstSeen])) || o.Integer(rabbit.HeaderAttempts) != int64(first(want.Headers[rabbit.HeaderAttempts])) ||
				len(o.Failures()) != len(want.Headers)/4 {
				t.Fatalf("%s: %+v %v", e.MessageID, d, d.Headers)
			}
		}
	}
	if came != n || s.depth(s.names.DeadLetters) != 0 {
		t.Errorf("%d of %d events came, %d dead letters", came, n, s.depth(s.names.DeadLetters))
	}
}

// first returns a header's number, 0 where there is none.
func first(v any) int {
	switch n := v.(type) {
	case int64:
		return int(n)
	case int32:
		return int(n)
	}
	return 0
}

// acked returns how many originals were acknowledged.
func (s *stage) acked() (n int64) {
	for _, c := range s.consumers() {
		n += c.Stats.Acked.Load()
	}
	return n
}

// A malformed message becomes one dead letter that says why, and those around it pass.
//
// Promise(partitions/common-exchange)
func TestMalformedMessagesBecomeDeadLetters(t *testing.T) {
	s := newSite(t)
	bad := s.foreign(1, 2)
	bad.ID, bad.Body = "bad", []byte(`{"user_id":1,"event_type":"sale","message_id":"bad"}`)
	broken := s.foreign(1, 3)
	broken.ID, broken.Body = "broken", []byte(`{`)
	s.publish(s.foreign(1, 1), bad, broken, s.foreign(1, 4))
	st := s.run()
	must.Hold(t, "all are acknowledged", func() bool { return st.acked() == 4 })
	scan, err := deadletter.Open(t.Context(), s.dsn, s.names)
	must.OK(t, err)
	reasons := map[string]string{}
	for l, err := range scan.Letters(t.Context()) {
		must.OK(t, err)
		if reasons[l.ID] != "" {
			t.Errorf("%s became two letters", l.ID)
		}
		reasons[l.ID] = l.Reason
	}
	for _, m := range []rabbit.Message{bad, broken} {
		_, want := profile.ParseEvent(m.Body, time.Now())
		if reasons[m.ID] != engine.ReasonOf(want) {
			t.Errorf("%s: the reason %q, want %q", m.ID, reasons[m.ID], engine.ReasonOf(want))
		}
	}
	partition := s.names.PartitionQueue(engine.SlotOf(1) % partitions)
	if len(reasons) != 2 || s.depth(partition) != 2 {
		t.Errorf("%v, %d events came", reasons, s.depth(partition))
	}
	if err := errors.Join(scan.Close(), st.stop()); err != nil {
		t.Error(err)
	}
}

// A setup that was killed leaves a slot without a queue: its events come back to the common
// queue, in which they wait for longer each time. The stage says the cure, and the next
// setup gives each event to its partition, once.
//
// Promise(partitions/setup-killed)
func TestEventsOfASlotInBetween(t *testing.T) {
	s := newSite(t)
	slot := engine.SlotOf(1)
	must.OK(t, s.channel.QueueUnbind(s.names.PartitionQueue(slot%partitions), s.names.SlotKey(slot), s.names.InnerExchange(s.names.Slots), nil))
	const n = 5
	for i := range n {
		s.publish(s.foreign(1, i))
	}
	st := s.run()
	must.Hold(t, "they came back several times, and that is noted", func() bool { return st.acked() >= 3*n && len(st.Notes()) == 1 })
	if err := st.Ready(); engine.ReasonOf(err) != ReasonNoPartition || !strings.Contains(err.Error(), "rabbit.SetupPartitions") {
		t.Errorf("it is ready: %v", err)
	}
	s.setUp(partitions)
	came := map[string]int{}
	for _, d := range s.take(s.names.PartitionQueue(slot%partitions), n) {
		came[d.MessageId]++
	}
	if len(came) != n || s.depth(s.names.DeadLetters) != 0 {
		t.Errorf("%v came, %d dead letters", came, s.depth(s.names.DeadLetters))
	}
	must.Hold(t, "what came back is noted no more once other events are moved", func() bool {
		s.publish(s.foreign(1, n))
		return st.Ready() == nil
	})
}

// Where no queue takes a slot's events, or their exchange is missing, they stay in the
// common queue with no attempt used: the stage says the cure, in one line of the log, and
// goes on once that is done.
//
// Promise(partitions/no-route): Events that no partition takes stay in their queue with no attempt
// used; `/readyz` and one line of the log name the cure.
func TestEventsWaitForTheirPartition(t *testing.T) {
	for name, breakIt := range map[string]func(s *site) error{
		"slot not bound": func(s *site) error {
			slot := engine.SlotOf(1)
			return s.channel.ExchangeUnbind(s.names.InnerExchange(s.names.Slots), s.names.SlotKey(slot), s.names.Slots, false, nil)
		},
		"no exchange": func(s *site) error { return s.channel.ExchangeDelete(s.names.Slots, false, false) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			must.OK(t, breakIt(s))
			const n = 5
			for i := range n {
				s.publish(s.foreign(1, i))
			}
			st := s.run()
			must.Hold(t, "it was tried several times, and only that is noted", func() bool {
				return st.Stats.Unpublished() >= 3*n && len(st.Notes()) == 1
			})
			err := st.Ready()
			if engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "rabbit.SetupPartitions") || len(st.Notes()) != 1 {
				t.Errorf("it is ready: %v, and notes %q", err, st.Notes())
			}
			if st.acked() != 0 || s.depth(s.names.DeadLetters) != 0 {
				t.Errorf("%d acknowledged, %d dead letters", st.acked(), s.depth(s.names.DeadLetters))
			}
			s.setUp(partitions)
			for i, d := range s.take(s.names.PartitionQueue(engine.SlotOf(1)%partitions), n) {
				o := rabbit.OriginalOf(&d)
				if d.MessageId != fmt.Sprintf("m%d", i) || o.Integer(rabbit.HeaderAttempts) != 0 {
					t.Errorf("message %d is %s with %v", i, d.MessageId, d.Headers)
				}
			}
			must.Hold(t, "it is ready", func() bool { return st.Ready() == nil && st.acked() == n })
			if lines := strings.Count(st.log.String(), `"level":"ERROR"`); lines != 1 && name != "no exchange" || lines > 2 {
				t.Errorf("%d lines of errors:\n%s", lines, st.log)
			}
		})
	}
}

// A broker without the common queue has no partitions: the stage ends with the cure.
//
// Promise(partitions/no-route)
func TestNoCommonQueue(t *testing.T) {
	s := newSite(t)
	s.DeleteQueue(t, s.vhost, s.names.CommonQueue())
	st := s.run()
	must.Hold(t, "it has ended", func() bool { return strings.Contains(st.log.String(), "partitioning stopped") })
	err := st.stop()
	if engine.ReasonOf(err) != rabbit.ReasonQueueMissing || !strings.Contains(err.Error(), "rabbit.SetupPartitions") {
		t.Errorf("it ended with %v", err)
	}
}

// The single queue used before partitions may be deleted once it is empty, and made again.
//
// Promise(partitions/stages-take-turns)
func TestTheQueueOfBeforeMayBeMissing(t *testing.T) {
	s := newSite(t)
	s.DeleteQueue(t, s.vhost, s.names.Queue)
	st := s.run()
	s.publish(s.foreign(1, 1))
	must.Hold(t, "the event passes", func() bool { return st.acked() == 1 && st.Ready() == nil })
	for i := range 2 {
		s.setUp(0)
		s.setUp(partitions)
		m := s.foreign(1, 10+i)
		m.Exchange, m.RoutingKey = "", s.names.Queue
		s.publish(m)
		must.Hold(t, "an event of the queue passes", func() bool { return st.acked() == int64(2+i) && st.Ready() == nil })
		s.DeleteQueue(t, s.vhost, s.names.Queue)
		must.Hold(t, "it is noticed", func() bool { return errors.Is(st.old.Ready(), consume.ErrNoQueue) })
		if err := st.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
	}
	if strings.Contains(st.log.String(), `"level":"ERROR"`) {
		t.Errorf("an error is logged:\n%s", st.log)
	}
}

// Without partitions the one queue is the workers': a stage leaves it alone, and moves what
// waits in the common queue.
func TestTheOneQueueIsLeftToWorkersWithoutPartitions(t *testing.T) {
	s := newSite(t)
	s.publish(s.foreign(1, 1))
	s.setUp(0)
	st := s.run()
	must.Hold(t, "the common queue is moved", func() bool { return st.acked() == 1 && st.Ready() == nil })
	s.publish(s.foreign(1, 2))
	must.Hold(t, "the workers' queue has the event", func() bool { return s.depth(s.names.Queue) == 1 })
	s.setUp(partitions)
	must.Hold(t, "the single queue used before partitions is drained", func() bool { return st.acked() == 2 && st.draining.Load() })
	s.setUp(0)
	must.Hold(t, "it is noticed", func() bool { return !st.draining.Load() })
	s.publish(s.foreign(1, 3))
	must.Hold(t, "the workers' queue has an event again", func() bool { return s.depth(s.names.Queue) == 1 })
	if n := st.acked(); n != 2 || len(st.Notes()) != 0 {
		t.Errorf("%d events were moved, notes %q", n, st.Notes())
	}
}

// Of two stages one works. The other goes on where the first ends.
//
// Promise(partitions/stages-take-turns): Of several `keyfold partition` one takes the common queue and
// all drain the single queue used before partitions; that this one is missing is no fault.
func TestTwoStagesTakeTurns(t *testing.T) {
	s := newSite(t)
	first := s.run()
	must.Hold(t, "the first is ready", func() bool { return first.Ready() == nil })
	second := s.run()
	must.Hold(t, "the second is ready", func() bool { return second.Ready() == nil })
	const n = 300
	s.publishForeign(7, 0, n)
	must.Hold(t, "all pass", func() bool { return first.acked()+second.acked() == n })
	if first.acked() != n {
		t.Errorf("the second stage took %d", second.acked())
	}
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	s.publishForeign(7, n, n)
	must.Hold(t, "the second goes on", func() bool { return second.acked() == n })
}

// A stage that is told to stop publishes what it has received: it does not go back to the
// broker, where it would be marked as delivered before. A quorum queue may still send some
// messages behind the end of the consumer, which nothing takes.
//
// Promise(partitions/stage-killed)
func TestAStageThatStopsPublishesWhatItReceived(t *testing.T) {
	s := newSite(t)
	const n = 3000
	for from := 0; from < n; from += 500 {
		s.publishForeign(7, from, 500)
	}
	st := s.run()
	must.Hold(t, "it works", func() bool { return st.acked() > 0 })
	if err := st.stop(); err != nil {
		t.Error(err)
	}
	moved := st.acked()
	next := s.run()
	must.Hold(t, "the next one moves the rest", func() bool { return moved+next.acked() == n })
	if again := next.common.Stats.Redelivered.Load(); again > prefetch/4 {
		t.Errorf("%d messages were given back, %d were moved before", again, moved)
	}
}

// While the broker is away, or takes no messages, the stage waits.
//
// Promise(partitions/no-route)
func TestBrokerAway(t *testing.T) {
	s := newSite(t)
	st := s.run()
	const n = 400
	go func() {
		for range 5 {
			time.Sleep(20 * time.Millisecond)
			s.CloseConnections(t, s.vhost, " partition ")
		}
	}()
	for i := range n {
		m := s.foreign(i%5+1, i)
		must.Hold(t, "it is published", func() bool { return s.publisher.Publish(t.Context(), []rabbit.Message{m})[0] == nil })
	}
	must.Hold(t, "the common queue is empty", func() bool { return st.Ready() == nil && st.Consumed(unacked) == 0 && st.acked() >= n })
	seen := map[string]bool{}
	for i := range partitions {
		for _, d := range s.take(s.names.PartitionQueue(i), 0) {
			seen[d.MessageId] = true
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d events came", len(seen), n)
	}
}

func unacked(s *consume.Stats) *atomic.Int64 { return &s.Unacked }

// Headers may take up a whole frame already, keyfold's own among them: the copy has fewer,
// and none that says where the event came from if that is no exchange. The messages
// behind it pass.
//
// Promise(partitions/full-headers): A message whose headers fill a frame delays no other: what keyfold
// sends of it has keyfold's own headers alone.
func TestHeadersOfAWholeFrame(t *testing.T) {
	const frame, rest = 128 << 10, 27
	for name, headers := range map[string]amqp.Table{
		"the exchange":            {rabbit.HeaderExchange: strings.Repeat("x", 70<<10), "own": ""},
		"the exchange of a death": {rabbit.HeaderFirstExchange: strings.Repeat("x", 70<<10), rabbit.HeaderReason: "expired", "own": ""},
		"the errors":              {rabbit.HeaderErrors: strings.Repeat("x", 70<<10), "own": ""},
		"one of the publisher's":  {"own": ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			size := 0
			for name, text := range headers {
				size += len(name) + len(text.(string)) + 6
			}
			headers["own"] = strings.Repeat("x", frame-rest-size)
			m := s.foreign(1, 1)
			// Not by a publisher of keyfold's, which sends no more than fits.
			must.OK(t, s.channel.Publish(m.Exchange, m.RoutingKey, true, false, amqp.Publishing{Headers: headers, Priority: m.Priority, Body: m.Body}))
			queue := s.names.CommonQueue()
			must.Hold(t, "it waits", func() bool { return s.depth(queue) == 1 })
			s.publish(s.foreign(1, 2))
			st := s.run()
			must.Hold(t, "both pass", func() bool { return st.acked() == 2 })
			for i, d := range s.take(s.names.PartitionQueue(engine.SlotOf(1)%partitions), 2) {
				if o := rabbit.OriginalOf(&d); d.MessageId != fmt.Sprintf("m%d", i+1) || o.Origin() != s.names.Exchange {
					t.Errorf("%s came %d. from %.40q", d.MessageId, i+1, o.Origin())
				}
			}
			if n := st.Stats.Unpublished(); n != 0 {
				t.Errorf("%d publications failed", n)
			}
		})
	}
}
