package broker

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

func TestMain(m *testing.M) { process.Main(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// site is a virtual host with the queues of notifications.
type site struct {
	*rabbittest.Broker
	vhost, dsn string
	publisher  *rabbit.Publisher
}

func newSite(t *testing.T, kind topology.QueueType) *site {
	t.Helper()
	t.Parallel()
	s := &site{Broker: rabbittest.Shared(t)}
	s.vhost = s.VHost(t)
	s.dsn = s.DSN(s.vhost)
	must.OK(t, Setup(t.Context(), s.dsn, Topology{QueueType: kind, RetryDelays: rabbit.RetryDelays(20*time.Millisecond, 1)}))
	s.publisher = rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("test"), "publisher", rabbit.Timing{}, quiet)
	t.Cleanup(func() { _ = s.publisher.Close(t.Context()) })
	return s
}

func (s *site) publish(t *testing.T, messages ...rabbit.Message) {
	t.Helper()
	for i, err := range s.publisher.Publish(t.Context(), messages) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

// take takes the message at a queue's head off it; nil where there is none.
func (s *site) take(t *testing.T, queue string) *amqp.Delivery {
	t.Helper()
	channel, err := rabbit.OpenChannel(t.Context(), s.dsn, "test", "take")
	must.OK(t, err)
	defer func() { _ = channel.Disconnect(t.Context()) }()
	d, ok, err := channel.Get(queue, true)
	must.OK(t, err)
	if !ok {
		return nil
	}
	return &d
}

// event returns the event of a number, without an event_id of its own.
func event(t *testing.T, number int, kind notify.EventType, more string) *notify.Notification {
	t.Helper()
	body := fmt.Sprintf(`{"user_id":"u%d","event_type":%q,"title":"Title %d","source":"test","channel":["email","push"],"timestamp":%q%s}`,
		number%7, kind, number, time.Now().UTC().Format(time.RFC3339), more)
	e, err := notify.Parse([]byte(body), engine.Now())
	must.OK(t, err)
	return e
}
