package rabbit_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// declared returns a virtual host with keyfold's classic queues.
func declared(t testing.TB) *sitetest.Site {
	t.Helper()
	s := sitetest.New(t, sitetest.Broker(t))
	must.OK(t, topology.Setup(t.Context(), s.DSN, topology.Config{Names: s.Names, QueueType: topology.Classic}))
	return s
}

func TestEventMessageProperties(t *testing.T) {
	s := declared(t)
	s.Publish(s.Messages(1)...)
	d, ok, err := s.Channel().Get(s.Names.Queue, true)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if d.ContentType != "application/json" || d.ContentEncoding != "utf-8" || d.DeliveryMode != amqp.Persistent ||
		d.Priority != 5 || d.AppId != "keyfold" || d.MessageId != "m000000" || d.RoutingKey != "user.embedding.product_view" ||
		d.Exchange != "user_events" || !d.Timestamp.Equal(time.Date(2026, 2, 10, 14, 30, 0, 0, time.UTC)) ||
		string(d.Body) != string(sitetest.Body(0)) {
		t.Errorf("%+v", d)
	}
}

// Unroutable messages are errors, each where it stands, among others that are
// confirmed, also more than fit in flight and several with one id.
//
// Promise(rabbitmq/unroutable): Publishing is mandatory, and the return of an unroutable message is
// matched to it.
// Promise(rabbitmq/notifications)
func TestUnroutable(t *testing.T) {
	const n = 2*rabbit.MaxInFlight + 100
	s := declared(t)
	messages := s.Messages(n)
	for i := range messages {
		if i%3 == 0 {
			messages[i].RoutingKey, messages[i].ID = "nobody.listens", "same"
		}
	}
	p := s.Publisher(sitetest.Quick)
	errs := p.Publish(sitetest.Within(t, time.Minute), messages)
	for i, err := range errs {
		if unroutable := errors.Is(err, engine.ErrUnroutable); unroutable != (i%3 == 0) || !unroutable && err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if engine.KindOf(errs[0]) != engine.Transient || !strings.Contains(errs[0].Error(), "nobody.listens") {
		t.Error(errs[0])
	}
	back := int64((n + 2) / 3)
	if p.Stats.Published.Load() != n || p.Stats.Returned.Load() != back || p.Stats.Confirmed.Load() != n-back {
		t.Errorf("published %d, returned %d, confirmed %d", p.Stats.Published.Load(), p.Stats.Returned.Load(), p.Stats.Confirmed.Load())
	}
	if left := s.Depth(s.Names.Queue); left != int(n-back) {
		t.Errorf("%d in the queue", left)
	}
}

func TestPublishFromManyGoroutines(t *testing.T) {
	s := declared(t)
	messages := s.Messages(1600)
	p := s.Publisher(sitetest.Quick)
	var publishing sync.WaitGroup
	for i := range 8 {
		publishing.Go(func() {
			for _, err := range p.Publish(sitetest.Within(t, time.Minute), messages[i*200:(i+1)*200]) {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	publishing.Wait()
	if n := s.Depth(s.Names.Queue); n != 1600 || p.Stats.Connects.Load() != 1 {
		t.Errorf("%d in the queue, %d connections", n, p.Stats.Connects.Load())
	}
}

func TestRefusedByAFullQueue(t *testing.T) {
	s := declared(t)
	if _, err := s.Channel().QueueDeclare("full", true, false, false, false,
		amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	messages := s.Messages(5)
	for i := range messages {
		messages[i].Exchange, messages[i].RoutingKey = "", "full"
	}
	p := s.Publisher(sitetest.Quick)
	refused := 0
	for range 3 {
		for _, err := range p.Publish(sitetest.Within(t, time.Minute), messages) {
			if errors.Is(err, engine.ErrRefused) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
	}
	if refused == 0 || p.Stats.Nacked.Load() != int64(refused) {
		t.Errorf("%d refused, %d counted", refused, p.Stats.Nacked.Load())
	}
}

// A confirm that does not come leaves the outcome unknown, a connection that is
// gone before the write does not, and publishing goes on when it is back.
//
// Promise(rabbitmq/confirm-timeout): A confirm that timed out is unknown, not failed: the message is
// published again and folded once.
func TestPublishOverABadNetwork(t *testing.T) {
	s := declared(t)
	proxy := rabbittest.NewProxy(t, s.Broker.Address())
	direct := s.DSN
	s.DSN = rabbittest.DSN(proxy.Address(), s.VHost)
	p := s.Publisher(sitetest.Quick)
	messages := s.Messages(10)
	publish := func(limit time.Duration) []error { return p.Publish(sitetest.Within(t, limit), messages) }
	must.OK(t, errors.Join(publish(time.Minute)...))
	proxy.Freeze()
	for i, err := range publish(2 * time.Second) {
		if !errors.Is(err, engine.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("message %d without a confirm: %v", i, err)
		}
	}
	lost := make(chan []error)
	go func() { lost <- publish(time.Minute) }()
	sitetest.Eventually(t, "messages written", func() bool { return p.Stats.Published.Load() == 30 })
	proxy.Cut()
	for i, err := range <-lost {
		if !errors.Is(err, engine.ErrUnknown) {
			t.Errorf("message %d with the connection lost: %v", i, err)
		}
	}
	proxy.Thaw()
	sitetest.Eventually(t, "publishing again", func() bool { return errors.Join(publish(time.Minute)...) == nil })
	s.DSN = direct
	if n := s.Depth(s.Names.Queue); n < 20 || n > 40 {
		t.Errorf("%d in the queue", n)
	}
}

// A message is not sent behind its time. The others are.
//
// Promise(redelivery/partition-frozen)
func TestLateMessagesAreNotSent(t *testing.T) {
	s := declared(t)
	m := s.Messages(3)
	m[0].Until, m[1].Until = time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	errs := s.Publisher(sitetest.Quick).Publish(sitetest.Within(t, sitetest.Ample), m)
	if errs[0] != nil || !errors.Is(errs[1], rabbit.ErrLate) || s.Depth(s.Names.Queue) != 1 {
		t.Errorf("%v, %d in the queue", errs, s.Depth(s.Names.Queue))
	}
}

// The broker takes the longest expiration, and drops what has expired.
//
// Promise(dispatch/expiry)
func TestExpirationAtTheBroker(t *testing.T) {
	s := declared(t)
	message := func(after time.Duration) rabbit.Message {
		return rabbit.Message{RoutingKey: s.Names.DeadLetters, ID: after.String(), Expiration: after}
	}
	p := rabbit.NewPublisher(s.DSN, rabbit.ThisProcess("test"), "publisher", sitetest.Quick, sitetest.Quiet)
	defer p.Close(t.Context())
	for i, err := range p.Publish(t.Context(), []rabbit.Message{message(time.Millisecond), message(rabbit.MaxExpiration), message(0)}) {
		if err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
	sitetest.Eventually(t, "one has expired", func() bool { return s.Depth(s.Names.DeadLetters) == 2 })
}

// Headers that are larger than a frame are left out, and the message is published.
func TestHeadersOfAFrameArePublishedWithout(t *testing.T) {
	s := declared(t)
	m := s.Messages(2)
	m[0].Headers = amqp.Table{"trace": strings.Repeat("x", 128<<10), rabbit.HeaderFirstSeen: int64(5)}
	s.Publish(m...)
	d, ok, err := s.Channel().Get(s.Names.Queue, true)
	if err != nil || !ok || d.MessageId != m[0].ID || len(d.Headers) != 1 || d.Headers[rabbit.HeaderFirstSeen] != int64(5) {
		t.Errorf("%t %v %s %d", ok, err, d.MessageId, len(d.Headers))
	}
}

// A command whose broker takes connections and answers no request says that it does not answer.
func TestACommandNamesASilentBroker(t *testing.T) {
	s := declared(t)
	proxy := rabbittest.NewProxy(t, s.Broker.Address())
	c, err := rabbit.OpenChannel(t.Context(), rabbittest.DSN(proxy.Address(), s.VHost), "test", "test")
	must.OK(t, err)
	defer c.CloseConnection(sitetest.Within(t, time.Second))
	proxy.Freeze()
	err = c.During(sitetest.Within(t, 200*time.Millisecond), func() error {
		_, err := c.Ready(s.Names, s.Names.Queue)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "gives no answer in time") {
		t.Errorf("%v", err)
	}
}
