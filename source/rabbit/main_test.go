package rabbit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/bench/testserver/process"
	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
)

// DeadLetterQueue makes a worker's dead letters. An external test file sets it:
// package deadletter imports this one, so that tests in this package cannot.
var DeadLetterQueue func(p *Publisher, names Names, host string) DeadLetters

func TestMain(m *testing.M) { process.Main(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

var quick = Timing{
	// Longer than a busy machine stands still: tests count connections.
	Heartbeat: 30 * time.Second, Connect: 30 * time.Second, Write: 30 * time.Second,
	BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond,
}

// site is a virtual host with keyfold's topology.
type site struct {
	t      testing.TB
	broker *rabbittest.Broker
	vhost  string
	dsn    string
	names  Names
}

func newSite(t testing.TB, b *rabbittest.Broker) *site {
	t.Helper()
	vhost := b.VHost(t)
	s := &site{t: t, broker: b, vhost: vhost, dsn: b.DSN(vhost), names: DefaultNames()}
	s.setup()
	return s
}

// sharedBroker is the test binary's. The test goes on beside others from here: it mostly
// waits, for delays, heartbeats and the broker.
func sharedBroker(t testing.TB) *rabbittest.Broker {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	return rabbittest.Shared(t)
}

func shared(t testing.TB) *site { return newSite(t, sharedBroker(t)) }

func (s *site) setup() {
	s.t.Helper()
	if err := Setup(s.t.Context(), s.dsn, Topology{Names: s.names, QueueType: Classic}); err != nil {
		s.t.Fatal(err)
	}
}

func body(i int) []byte {
	return fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_view","search_phrase":null,"product_id":%d,`+
		`"occurred_at":"2026-02-10T14:30:00+00:00","metadata":{"device":"mobile"},"message_id":"m%06d","version":"1.0"}`,
		i%500+1, i%90+1, i)
}

func event(t testing.TB, body []byte) engine.Event {
	t.Helper()
	e, err := engine.ParseEvent(body, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// messages returns n different events.
func (s *site) messages(n int) []Message {
	all := make([]Message, n)
	for i := range all {
		b := body(i)
		e := event(s.t, b)
		all[i] = s.names.EventMessage(b, &e)
	}
	return all
}

func (s *site) publisher(timing Timing) *Publisher {
	p := NewPublisher(s.dsn, ThisProcess("test"), "publisher", timing, quiet)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ample)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			s.t.Error(err)
		}
	})
	return p
}

func (s *site) publish(messages ...Message) {
	s.t.Helper()
	for i, err := range s.publisher(quick).Publish(within(s.t, time.Minute), messages) {
		if err != nil {
			s.t.Fatalf("message %d: %v", i, err)
		}
	}
}

// ample is time enough for what takes none but on a machine that is busy
// elsewhere: it only bounds a failure.
const ample = 2 * time.Minute

// within returns a context of the test with a time limit.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// channel opens a plain channel for looking from outside.
func (s *site) channel() *amqp.Channel {
	s.t.Helper()
	conn, err := amqp.Dial(s.dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		s.t.Fatal(err)
	}
	return ch
}

// depth returns how many messages of a queue are ready.
func (s *site) depth(queue string) int {
	s.t.Helper()
	q, err := s.channel().QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return q.Messages
}

// unsubscribed waits until nobody consumes the worker's queue: a pause has come
// into force, also for retries that come due.
func (s *site) unsubscribed() {
	s.t.Helper()
	ch := s.channel()
	eventually(s.t, "no consumer at the broker", func() bool {
		q, err := ch.QueueDeclarePassive(s.names.Queue, true, false, false, false, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		return q.Consumers == 0
	})
}

// runner is a consumer at work.
type runner struct {
	*Consumer
	t    testing.TB
	stop context.CancelFunc
	done chan error
	once sync.Once
}

func (s *site) config() Config {
	return Config{
		DSN: s.dsn, Names: s.names, Identity: ThisProcess("test"),
		Prefetch: 1000, MaxRetries: 5, RetryDelay: 20 * time.Millisecond, Timing: quick,
	}
}

func (s *site) run(config Config, deliver engine.Deliver) *runner {
	s.t.Helper()
	return s.runWith(InProcess{}, config, deliver)
}

func (s *site) runWith(retries Retries, config Config, deliver engine.Deliver) *runner {
	s.t.Helper()
	return s.runLogged(quiet, retries, config, deliver)
}

func (s *site) runLogged(log *slog.Logger, retries Retries, config Config, deliver engine.Deliver) *runner {
	s.t.Helper()
	c, err := NewConsumer(config, Ports{
		DeadLetters: DeadLetterQueue(s.publisher(quick), s.names, "test-host"),
		Retries:     retries,
		Log:         log,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &runner{Consumer: c, t: s.t, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- c.Run(ctx, Events(deliver)) }()
	s.t.Cleanup(func() { r.end(10 * time.Second) })
	return r
}

// end stops the consumer and closes it.
func (r *runner) end(limit time.Duration) (err error) {
	r.once.Do(func() {
		r.stop()
		if err := <-r.done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		err = r.Close(ctx)
	})
	return err
}

// eventually waits for a condition; the limit only bounds a failure.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for limit := time.Now().Add(ample); ; time.Sleep(2 * time.Millisecond) {
		if condition() {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("not within %v: %s", ample, what)
		}
	}
}

// inbox keeps what was delivered.
type inbox struct {
	mu  sync.Mutex
	all []engine.Delivery
}

func (i *inbox) deliver(_ context.Context, deliveries []engine.Delivery) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, deliveries...)
	return nil
}

func (i *inbox) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.all)
}

// take empties the inbox.
func (i *inbox) take() []engine.Delivery {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.all
	i.all = nil
	return all
}

func ids(deliveries []engine.Delivery) map[string]int {
	all := map[string]int{}
	for _, d := range deliveries {
		all[d.Event.MessageID]++
	}
	return all
}

var folded = engine.Verdict{Outcome: engine.Folded}

func settleAtOnce(_ context.Context, deliveries []engine.Delivery) error {
	for _, d := range deliveries {
		d.Settler.Settle(folded)
	}
	return nil
}
