package partitioner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/shutdown"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// frozenDSN is the environment variable that makes the test's program a stage.
const frozenDSN = "KEYFOLD_TEST_STAGE"

func TestMain(m *testing.M) {
	if dsn := os.Getenv(frozenDSN); dsn != "" {
		runStage(dsn)
		return
	}
	process.Main(m)
}

const partitions = 4

// site is a virtual host with partitions.
type site struct {
	*rabbittest.Broker
	t          testing.TB
	vhost, dsn string
	names      rabbit.Names
	publisher  *rabbit.Publisher
	channel    *rabbit.Channel
}

// newSite sets one up. The test goes on beside others from here.
func newSite(t testing.TB) *site {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	s := &site{Broker: rabbittest.Shared(t), t: t, names: rabbit.DefaultNames()}
	s.vhost = s.VHost(t)
	s.dsn = s.DSN(s.vhost)
	s.setUp(0) // the single queue used before partitions
	s.setUp(partitions)
	s.publisher = rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("test"), "publisher", rabbit.Timing{}, quiet)
	var err error
	if s.channel, err = rabbit.OpenChannel(t.Context(), s.dsn, "test", "look"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.publisher.Close(context.Background())
		_ = s.channel.Disconnect(context.Background())
	})
	return s
}

func (s *site) setUp(n int) {
	s.t.Helper()
	err := topology.Setup(s.t.Context(), s.dsn, topology.Config{Names: s.names, Partitions: n, RetryDelays: []time.Duration{time.Second}})
	must.OK(s.t, err)
}

// publish publishes to an exchange, "" being a queue's.
func (s *site) publish(messages ...rabbit.Message) {
	s.t.Helper()
	for i, err := range s.publisher.Publish(s.t.Context(), messages) {
		if err != nil {
			s.t.Fatalf("message %d: %v", i, err)
		}
	}
}

// publishForeign publishes n events of some users in one go, numbered from a number on.
func (s *site) publishForeign(users, from, n int) {
	s.t.Helper()
	var all []rabbit.Message
	for i := range n {
		all = append(all, s.foreign(i%users+1, from+i))
	}
	s.publish(all...)
}

// foreign returns an event as a publisher sends it that knows no slots.
func (s *site) foreign(user, number int) rabbit.Message {
	s.t.Helper()
	text := body(user, number)
	e, err := profile.ParseEvent(text, time.Now())
	must.OK(s.t, err)
	return s.names.EventMessage(text, &e)
}

// take takes what there is off a queue, once that is n messages. A queue with a single
// active consumer gives none to one that asks for them one by one.
func (s *site) take(queue string, n int) (all []amqp.Delivery) {
	s.t.Helper()
	must.Hold(s.t, fmt.Sprintf("%d messages in %s", n, queue), func() bool { return s.depth(queue) >= n })
	n = s.depth(queue)
	deliveries, err := s.channel.Consume(queue, queue, true, false, false, false, nil)
	must.OK(s.t, err)
	for range n {
		all = append(all, <-deliveries)
	}
	must.OK(s.t, s.channel.Cancel(queue, false))
	return all
}

// depth returns how many messages are ready in a queue.
func (s *site) depth(queue string) int {
	s.t.Helper()
	n, err := s.channel.Ready(s.names, queue)
	must.OK(s.t, err)
	return n
}

// stage is one at work.
type stage struct {
	*Partitioner
	log  *logtest.Buffer
	stop func() error
}

// run starts a stage that stops with the test.
func (s *site) run() *stage {
	s.t.Helper()
	log := &logtest.Buffer{}
	p, err := New(Config{
		DSN: s.dsn, Names: s.names, Identity: rabbit.ThisProcess("partition"), Look: 50 * time.Millisecond, WaitMin: 20 * time.Millisecond, WaitMax: 100 * time.Millisecond,
		Timing: rabbit.Timing{BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond},
	}, shutdown.NewClock(time.Minute), slog.New(slog.NewJSONHandler(log, nil)))
	must.OK(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	st := &stage{Partitioner: p, log: log, stop: sync.OnceValue(func() error {
		cancel()
		return <-ran
	})}
	s.t.Cleanup(func() {
		if err := st.stop(); engine.KindOf(err) != engine.Configuration && err != nil && !s.t.Failed() {
			s.t.Errorf("%v\n%s", err, log)
		}
	})
	return st
}
