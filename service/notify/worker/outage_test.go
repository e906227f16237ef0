package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/notify"
	"keyfold/internal/settings"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/service/notify/broker"
	"keyfold/service/notify/ruleset"
	"keyfold/service/notify/worker"
	"keyfold/shard"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/postgres"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

func TestMain(m *testing.M) { process.Main(m) }

// stack is a broker and a PostgreSQL server of the test's own, set up, and a worker.
type stack struct {
	broker     *rabbittest.Broker
	vhost      string
	postgres   *pgtest.Server
	ledger     *postgres.Ledger
	worker     *worker.Worker
	publisher  *rabbit.Publisher
	ended      chan error
	stop       context.CancelFunc
	events     []uuid.UUID
	ledgerURL  string
	retryDelay time.Duration
}

func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{broker: rabbittest.Shared(t), postgres: pgtest.Start(t), retryDelay: time.Second}
	s.vhost = s.broker.VHost(t)
	s.ledgerURL = s.postgres.URL(s.postgres.Database(t, ""))
	var err error
	s.ledger, err = postgres.Open(s.ledgerURL, 4)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, s.ledger.Close()) })
	must.OK(t, s.ledger.Setup(t.Context()))
	_, err = s.ledger.EnsurePartitions(t.Context(), engine.Now()-86_400_000, 3)
	must.OK(t, err)
	must.OK(t, broker.Setup(t.Context(), s.dsn(), broker.Topology{QueueType: topology.Classic, RetryDelays: rabbit.RetryDelays(s.retryDelay, 2)}))
	s.publisher = rabbit.NewPublisher(s.dsn(), rabbit.ThisProcess("test"), "test", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { must.OK(t, s.publisher.Close(context.Background())) })
	return s
}

func (s *stack) dsn() string { return s.broker.DSN(s.vhost) }

// work runs a worker until the test stops it.
func (s *stack) work(t *testing.T) {
	t.Helper()
	c := worker.Size(settings.Config{
		Shard: shard.DefaultConfig(), Breaker: breaker.DefaultConfig(),
		Retry: settings.Retry{Attempts: 2, Delay: s.retryDelay}, Timeout: 10 * time.Second,
	})
	c.DSN, c.Identity, c.QueueType = s.dsn(), rabbit.ThisProcess("notify worker"), topology.Classic
	c.Notifier.Mark, c.Breaker.HoldMax = 200*time.Millisecond, time.Second
	local, err := (&ruleset.Hours{Zone: "UTC", Morning: "08:00", Digests: "09:00"}).Local()
	must.OK(t, err)
	set, err := ruleset.Read("", local)
	must.OK(t, err)
	s.worker = worker.New(c, worker.Ports{
		OpenLedger: func(context.Context) (worker.Ledger, error) { return postgres.Open(s.ledgerURL, 8) },
		Sets:       ruleset.Fixed{Set: set},
		Log:        slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.ended = stop, make(chan error, 1)
	go func() { s.ended <- s.worker.Run(ctx) }()
}

// post publishes an urgent and a bulk event of each of so many users.
func (s *stack) post(t *testing.T, title string, users int) {
	t.Helper()
	var messages []rabbit.Message
	for i := range users {
		for _, kind := range []string{"SECURITY", "UPDATE"} {
			id := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, title, kind, i))
			e, err := notify.Parse(fmt.Appendf(nil, `{"event_id":%q,"user_id":"user-%d","event_type":%q,"title":"%s %d","source":"test","channel":["push"],"timestamp":%q}`,
				id, i, kind, title, i, time.Now().UTC().Format(time.RFC3339)), engine.Now())
			must.OK(t, err)
			s.events, messages = append(s.events, id), append(messages, broker.EventMessage(e))
		}
	}
	must.OK(t, errors.Join(s.publisher.Publish(t.Context(), messages)...))
}

// records returns the records by event.
func (s *stack) records(t *testing.T) map[uuid.UUID][]notify.Record {
	t.Helper()
	all := map[uuid.UUID][]notify.Record{}
	for d, err := range s.ledger.Records(t.Context(), ledger.Filter{Oldest: true}) {
		must.OK(t, err)
		all[d.Record.EventID] = append(all[d.Record.EventID], d.Record)
	}
	return all
}

// dispatched takes the messages out of a channel's queue and returns them by id.
func (s *stack) dispatched(t *testing.T, c notify.Channel) map[string]int {
	t.Helper()
	conn, err := amqp.Dial(s.dsn())
	must.OK(t, err)
	defer conn.Close()
	channel, err := conn.Channel()
	must.OK(t, err)
	got := map[string]int{}
	for {
		d, ok, err := channel.Get(broker.DispatchQueue(c), true)
		must.OK(t, err)
		if !ok {
			return got
		}
		got[d.MessageId]++
	}
}

// report says of each urgent event that it was delivered.
func (s *stack) report(t *testing.T) {
	t.Helper()
	var messages []rabbit.Message
	for id, records := range s.records(t) {
		if records[0].Type == notify.Security {
			messages = append(messages, rabbit.Message{
				Exchange: broker.DeliveryExchange, RoutingKey: "delivery.DELIVERED", ID: id.String(),
				Body: fmt.Appendf(nil, `{"event_id":%q,"status":"DELIVERED","channel":"push","at":%q}`, id, time.Now().UTC().Format(time.RFC3339)),
			})
		}
	}
	must.OK(t, errors.Join(s.publisher.Publish(t.Context(), messages)...))
}

// delivered counts the decisions that are known to be delivered.
func (s *stack) delivered(t *testing.T) (n int) {
	t.Helper()
	for d, err := range s.ledger.Records(t.Context(), ledger.Filter{}) {
		if must.OK(t, err); d.Delivery.Status == notify.Delivered {
			n++
		}
	}
	return n
}

// Events of both queues are decided once each, while PostgreSQL is killed, stays away
// for longer than events are held, and comes back: no attempt is used, nothing is
// dead-lettered, and each NOW is dispatched.
//
// Promise(notify/ledger-away): While the ledger is away events wait, no attempt is used and nothing is
// dead-lettered.
// Promise(notify-worker/postgres-killed): When PostgreSQL is away for longer than events are held they
// go back to the broker; then each is decided once, each NOW dispatched.
// Promise(acceptance/c3): C3: while PostgreSQL is away events wait, none is a dead letter, and
// `/readyz` names the cure.
func TestPostgresKilledAndStartedAgain(t *testing.T) {
	s := newStack(t)
	s.work(t)
	s.post(t, "before", 20)
	must.Hold(t, "events are decided", func() bool { return len(s.records(t)) == len(s.events) })
	s.post(t, "meanwhile", 150)
	s.postgres.Kill()
	s.post(t, "away", 20)
	must.Hold(t, "the ledger is known to be away", func() bool {
		err := s.worker.Ready()
		return err != nil && strings.Contains(err.Error(), "store: away since")
	})
	must.Hold(t, "held events go back to the broker", func() bool {
		return s.worker.Stats().Windows.HeldItems == 0 && s.worker.Stats().Consumers[0].Unacked.Load() == 0
	})
	s.postgres.Restart(t)
	must.Hold(t, "the worker goes on", func() bool { return s.worker.Ready() == nil })
	s.post(t, "after", 20)
	must.Hold(t, "all events are decided", func() bool { return len(s.records(t)) == len(s.events) })
	must.Hold(t, "all is marked", func() bool {
		left, err := s.ledger.Undispatched(t.Context(), engine.Now()+1000, 10)
		return err == nil && len(left) == 0
	})
	s.report(t)
	must.Hold(t, "deliveries are known", func() bool { return s.delivered(t) == len(s.events)/2 })
	stats := s.worker.Stats()
	s.stop()
	must.OK(t, <-s.ended)

	now := map[string]int{}
	for id, records := range s.records(t) {
		if len(records) != 1 {
			t.Errorf("event %v has %d records", id, len(records))
		}
		if records[0].Outcome == notify.Now {
			now[id.String()] = 1
		}
	}
	sent := s.dispatched(t, notify.Push)
	for id := range now {
		if sent[id] == 0 {
			t.Errorf("event %s is decided NOW and was not dispatched", id)
		}
	}
	if len(sent) != len(now) || len(now) < len(s.events)/2 {
		t.Errorf("%d dispatches of %d NOWs", len(sent), len(now))
	}
	for i, c := range stats.Consumers {
		if n := c.Retried.Load() + c.DeadLetters.Load() + c.Parked.Load(); n != 0 {
			t.Errorf("consumer %d: %d verdicts but decided", i, n)
		}
	}
	must.OK(t, s.broker.Sync())
	depths, err := s.broker.Depths(s.vhost)
	must.OK(t, err)
	for queue, n := range depths {
		// A quorum queue tells its depth a moment later.
		if n != 0 && !strings.HasPrefix(queue, broker.DispatchExchange) {
			t.Errorf("queue %s holds %d messages", queue, n)
		}
	}
}
