package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger/memory"
	"keyfold/sink/ledgertest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/rabbit/topology"
)

// awayOnce is a ledger that is away for its first call.
type awayOnce struct {
	*memory.Ledger
	called atomic.Bool
}

func (a *awayOnce) Apply(ctx context.Context, reports []notify.Report) []error {
	if !a.called.Swap(true) {
		return slices.Repeat([]error{engine.ErrAway}, len(reports))
	}
	return a.Ledger.Apply(ctx, reports)
}

// Reports of the queue are applied, also those that waited for the ledger; what names
// no decision, or is no report, is a dead letter with its reason.
//
// Promise(ledger/bad-reports): A report of no decision, or of one that was not to send, is a dead
// letter alone; while the ledger is away reports wait.
func TestReportsOfTheQueue(t *testing.T) {
	s := newSite(t, topology.Quorum)
	ledger := &awayOnce{Ledger: memory.New()}
	const at = engine.Millis(1_780_000_000_000)
	sent := ledgertest.Decide(ledgertest.Event("a", notify.Update, at), 1, 0, notify.Now, at)
	change := notify.Change{User: "a", State: &notify.State{DecidedAt: at}, Decided: []notify.Decided{sent}}
	must.OK(t, ledger.Commit(t.Context(), []notify.Change{change}, nil)[0])
	who := rabbit.ThisProcess("test")
	delays := consume.NewDelayQueues(s.dsn, Deliveries(), who, rabbit.Timing{}, quiet)
	consumer, err := consume.New(consume.Config{
		DSN: s.dsn, Names: Deliveries(), Identity: who, QueueType: topology.Quorum, Describe: Describe,
		Prefetch: 100, MaxRetries: 1, RetryDelay: 20 * time.Millisecond,
	}, consume.Ports{
		DeadLetters: deadletter.Queue{Publisher: s.publisher, Names: Deliveries(), Describe: Describe}, Retries: delays, Log: quiet,
	})
	must.OK(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	now := func() engine.Millis { return at + 10_000 }
	go func() { ran <- consumer.Run(ctx, Reports(ledger, now, func(err error) { t.Error(err) })) }()

	report := func(id, status, more string) rabbit.Message {
		return rabbit.Message{
			Exchange: DeliveryExchange, RoutingKey: "delivery." + status,
			Body: fmt.Appendf(nil, `{"event_id":%q,"status":%q,"at":%q%s}`, id, status, (at + 5000).Time().Format(time.RFC3339), more),
		}
	}
	unknown := uuid.NewString()
	s.publish(t, report(sent.Event.ID.String(), "DELIVERY_FAILED", `,"error":"busy"`))
	must.Hold(t, "the ledger was away", ledger.called.Load)
	s.publish(t, report(sent.Event.ID.String(), "DELIVERED", `,"channel":"push"`), report(unknown, "DELIVERY_FAILED", ""), report("bad", "DELIVERED", ""))
	must.Hold(t, "all are settled", func() bool { return consumer.Stats.Acked.Load() == 5 }) // the one that was parked twice

	d, err := ledger.Decision(t.Context(), sent.Record.DecisionID)
	if want := (notify.Delivery{Status: notify.Delivered, Channel: notify.Push, At: at + 5000}); err != nil || d.Delivery != want {
		t.Errorf("the delivery is %+v, %v, want %+v", d.Delivery, err, want)
	}
	scan, err := deadletter.Open(t.Context(), s.dsn, Deliveries())
	must.OK(t, err)
	scan.Describe = Describe
	reasons := map[string]string{}
	for l, err := range scan.Letters(t.Context()) {
		must.OK(t, err)
		reasons[l.ID+" "+l.Kind] = l.Reason
	}
	if want := map[string]string{unknown + " DELIVERY_FAILED": notify.ReasonUnknownDecision, "bad DELIVERED": notify.FaultBadEventID}; fmt.Sprint(reasons) != fmt.Sprint(want) {
		t.Errorf("the dead letters are %v, want %v", reasons, want)
	}
	stop()
	closing, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(<-ran, consumer.Close(closing), delays.Close(closing), scan.Close()); err != nil {
		t.Error(err)
	}
}
