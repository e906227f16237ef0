package writer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
	"keyfold/source/stream"
	"keyfold/source/stream/reader"
	"keyfold/source/stream/writer"
)

func TestMain(m *testing.M) { process.Main(m) }

// streams are those of a virtual host, behind a proxy.
type streams struct {
	*sitetest.Site
	proxy  *rabbittest.Proxy
	client stream.Config
}

func newStreams(t *testing.T, b *rabbittest.Broker, n int) *streams {
	t.Helper()
	s := &streams{Site: sitetest.New(t, b)}
	s.setUp(n)
	s.proxy = rabbittest.NewProxy(t, b.StreamAddress())
	s.client = stream.Config{
		URI: rabbittest.StreamURI(s.proxy.Address(), s.VHost), Name: "keyfold test", Timing: sitetest.Quick,
		Address: func(string, int) string { return s.proxy.Address() },
	}
	return s
}

func (s *streams) setUp(n int) {
	s.T.Helper()
	if err := topology.Setup(s.T.Context(), s.DSN, topology.Config{Names: s.Names, QueueType: topology.Classic, Streams: n}); err != nil {
		s.T.Fatal(err)
	}
}

func (s *streams) writer() *writer.Writer {
	w := writer.New(writer.Config{Client: s.client, Names: s.Names}, sitetest.Quiet)
	s.T.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

func (s *streams) last(w *writer.Writer, slot int) (name string, number uint64) {
	s.T.Helper()
	sitetest.Eventually(s.T, "the broker tells its last number", func() (told bool) {
		var err error
		name, number, err = w.Last(sitetest.Within(s.T, sitetest.Ample), slot, "reference")
		return err == nil
	})
	return name, number
}

// held returns how many messages a stream has.
func (s *streams) held(name string) (n uint64) {
	s.T.Helper()
	states, err := reader.Look(sitetest.Within(s.T, sitetest.Ample), stream.Config{URI: rabbittest.StreamURI(s.Broker.StreamAddress(), s.VHost), Timing: sitetest.Quick}, s.Names)
	if err != nil {
		s.T.Fatal(err)
	}
	for _, state := range states {
		if state.Stream == name {
			return state.End
		}
	}
	return 0
}

func group(name string, number uint64, messages int) writer.Group {
	g := writer.Group{Stream: name, Reference: "reference", Number: number}
	for i := range messages {
		m, _ := stream.AppendMessage(nil, fmt.Appendf(nil, "message %d of %d", i, number), nil)
		g.Messages = append(g.Messages, m)
	}
	return g
}

func (s *streams) publish(w *writer.Writer, groups ...writer.Group) {
	s.T.Helper()
	if err := errors.Join(w.Publish(sitetest.Within(s.T, sitetest.Ample), groups)...); err != nil {
		s.T.Fatal(err)
	}
}

// What comes again under a number that is not higher is confirmed and not stored, from another
// writer too; each slot has the stream of its partition.
//
// Promise(rabbitmq/stream-numbers): A stream takes a group of messages once, whichever process sends it
// again under its number.
func TestGroupsAreTakenOnce(t *testing.T) {
	t.Parallel()
	s := newStreams(t, rabbittest.Shared(t), 2)
	w, other := s.writer(), s.writer()
	name, number := s.last(w, 3)
	if number != 0 || name != "user_event_streams.1-1" {
		t.Fatalf("slot 3 has stream %s with number %d", name, number)
	}
	s.publish(w, group(name, 1, 3), group(name, 2, 1), group(name, 7, 125))
	s.publish(other, group(name, 1, 3), group(name, 5, 9), group(name, 7, 125), group(name, 8, 2))
	if held := s.held(name); held != 3+1+125+2 {
		t.Errorf("the stream has %d messages", held)
	}
	if _, number := s.last(w, 1); number != 8 {
		t.Errorf("the last number is %d", number)
	}
	if n := w.Stats.Confirmed.Load(); n != 129 {
		t.Errorf("%d messages were confirmed", n)
	}
	large := writer.Group{Stream: name, Reference: "reference", Number: 9, Messages: [][]byte{make([]byte, 2<<20)}}
	if err := w.Publish(t.Context(), []writer.Group{large})[0]; engine.KindOf(err) != engine.Permanent || !errors.Is(err, stream.ErrTooLarge) {
		t.Errorf("a message of 2 MiB: %v", err)
	}
}

// A connection that is lost leaves unknown what was on its way; the next call has another.
func TestLostConnectionIsUnknown(t *testing.T) {
	t.Parallel()
	s := newStreams(t, rabbittest.Shared(t), 1)
	w := s.writer()
	name, _ := s.last(w, 0)
	s.publish(w, group(name, 1, 1))
	s.proxy.Freeze()
	answer := make(chan error, 1)
	go func() {
		answer <- w.Publish(sitetest.Within(t, sitetest.Ample), []writer.Group{group(name, 2, 4)})[0]
	}()
	time.Sleep(20 * time.Millisecond) // on its way; if not, the error is another
	s.proxy.Cut()
	s.proxy.Thaw()
	if err := <-answer; err == nil {
		t.Error("a group that was lost is confirmed")
	}
	if _, number := s.last(w, 0); number != 1 {
		t.Errorf("the last number is %d", number)
	}
	s.publish(w, group(name, 2, 4))
	if held := s.held(name); held != 5 {
		t.Errorf("the stream has %d messages", held)
	}
}

// While a broker has an alarm of its disk it confirms nothing: that is unknown, and said.
func TestAlarmStopsPublishing(t *testing.T) {
	t.Parallel()
	b := rabbittest.Own(t)
	s := newStreams(t, b, 1)
	w := s.writer()
	name, _ := s.last(w, 0)
	s.publish(w, group(name, 1, 1))
	// put publishes the next group, and does not wait for long.
	put := func() error {
		_, number, err := w.Last(sitetest.Within(t, time.Second), 0, "reference")
		if err != nil {
			return err
		}
		return w.Publish(sitetest.Within(t, time.Second), []writer.Group{group(name, number+1, 1)})[0]
	}
	var last error
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last group: %v; the broker's silence: %v", last, w.Silent())
		}
	})
	sitetest.Eventually(t, "nothing is confirmed", func() bool {
		b.DiskAlarm(t, true) // a monitor that could not read how much is free starts anew without it
		last = put()
		return errors.Is(last, engine.ErrUnknown) && w.Silent() != nil && strings.Contains(w.Silent().Error(), "alarm")
	})
	b.DiskAlarm(t, false)
	sitetest.Eventually(t, "publishing goes on", func() bool { return put() == nil })
	if err := w.Silent(); err != nil {
		t.Error(err)
	}
}

// Without streams the cure is named.
func TestNoStreams(t *testing.T) {
	t.Parallel()
	s := newStreams(t, rabbittest.Shared(t), 0)
	_, _, err := s.writer().Last(sitetest.Within(t, sitetest.Ample), 0, "reference")
	if engine.ReasonOf(err) != stream.ReasonMissing || engine.KindOf(err) != engine.Configuration {
		t.Error(err)
	}
}

// A group that does not fit is not sent, and none of its reference behind it: the number of a
// later one would have it taken for stored.
func TestNoGroupGoesBehindOneThatWasNotSent(t *testing.T) {
	t.Parallel()
	s := newStreams(t, rabbittest.Shared(t), 1)
	s.client.FrameMax = 200 << 10
	w := s.writer()
	name, _ := s.last(w, 0)
	large := group(name, 1, 1)
	for range 4 {
		large.Messages = append(large.Messages, make([]byte, 60<<10))
	}
	other := group(name, 1, 1)
	other.Reference = "another"
	errs := w.Publish(sitetest.Within(t, sitetest.Ample), []writer.Group{large, group(name, 2, 1), other})
	if engine.KindOf(errs[0]) != engine.Configuration || errs[1] == nil || engine.KindOf(errs[1]) != engine.Transient || errs[2] != nil {
		t.Errorf("%v", errs)
	}
	if _, number := s.last(w, 0); number != 0 {
		t.Errorf("group 1 was not sent, and the last number is %d", number)
	}
}

// Writers go over to another number of streams, and not before all of these are there.
//
// Promise(rabbitmq/stream-generations): Writers go over to the streams of another generation once it
// is complete.
func TestWritersFollowAnotherGeneration(t *testing.T) {
	t.Parallel()
	s := newStreams(t, rabbittest.Shared(t), 2)
	channel := s.Channel()
	for _, i := range []int{3, 2} { // of 4, as a setup makes them that is killed midway
		name := s.Names.StreamQueue(rabbit.Stream{Generation: 2, Partition: i})
		if _, err := channel.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "stream", "x-max-age": "604800s", "x-queue-leader-locator": "balanced"}); err != nil {
			t.Fatal(err)
		}
	}
	w := s.writer()
	old, _ := s.last(w, 3)
	if old != "user_event_streams.1-1" {
		t.Errorf("slot 3 has %s while the next generation is in the making", old)
	}
	s.publish(w, group(old, 1, 1))
	s.setUp(4)
	sitetest.Eventually(t, "the writer goes over", func() bool {
		name, number := s.last(w, 3)
		return name == "user_event_streams.2-3" && number == 0
	})
	if errs := w.Publish(sitetest.Within(t, sitetest.Ample), []writer.Group{group(old, 2, 1)}); errs[0] == nil || errors.Is(errs[0], engine.ErrUnknown) {
		t.Errorf("a group for the generation that is gone: %v", errs)
	}
}

// Events without numbers of their own stand once and in order in the streams of their slots, in
// groups of a frame's size, whatever other events were published before.
func TestEventsOfAProgram(t *testing.T) {
	s := newStreams(t, rabbittest.Shared(t), 2)
	const events = 300
	messages := make([]rabbit.Message, events)
	for i := range messages {
		messages[i] = rabbit.Message{RoutingKey: s.Names.SlotKey(i % 3), Body: sitetest.Body(i)}
	}
	messages[7].RoutingKey = "user.viewed"
	for round := range uint64(2) {
		p := writer.NewEvents(s.writer())
		for i, err := range p.Publish(sitetest.Within(t, sitetest.Ample), messages) {
			if (err == nil) != (i != 7) || err != nil && engine.KindOf(err) != engine.Permanent {
				t.Errorf("event %d: %v", i, err)
			}
		}
		for slot, want := range map[int]uint64{0: 200, 1: 99} { // 7 is of slot 1
			name, _ := s.last(s.writer(), slot)
			if n := s.held(name); n != want*(round+1) {
				t.Errorf("%s has %d, want %d", name, n, want*(round+1))
			}
		}
	}
}
