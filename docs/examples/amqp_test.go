package examples_test

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// channel opens a channel on a broker's virtual host until the test's end.
func channel(t *testing.T, dsn string) *amqp.Channel {
	t.Helper()
	c, err := amqp.Dial(dsn)
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	ch, err := c.Channel()
	must.OK(t, err)
	return ch
}

func TestAMQPExample(t *testing.T) {
	b := rabbittest.Shared(t)
	for _, c := range clients(t) {
		if c.amqp != nil {
			t.Run(c.name, func(t *testing.T) { testAMQP(t, b, c.amqp) })
		}
	}
}

// testAMQP runs a publisher on a virtual host of its own.
func testAMQP(t *testing.T, b *rabbittest.Broker, publisher []string) {
	vhost := b.VHost(t)
	dsn := b.DSN(vhost)
	environment := []string{"RABBITMQ_DSN=" + dsn}
	publish := func(arguments ...string) (int, string, string) {
		return run(t, environment, "", with(publisher, arguments...)...)
	}
	if code, _, errs := publish("search", "1", "boots"); code != 1 || !strings.Contains(errs, "user_events") {
		t.Errorf("before setup: %d: %s", code, errs)
	}
	names := rabbit.DefaultNames()
	must.OK(t, topology.Setup(t.Context(), dsn, topology.Config{Names: names, QueueType: topology.Classic, RetryDelays: []time.Duration{5 * time.Second}}))
	ch := channel(t, dsn)
	for _, tc := range []struct {
		arguments []string
		want      profile.Event
	}{
		{[]string{"search", "12345", phrase}, profile.Event{UserID: 12345, Type: profile.Search, Phrase: phrase}},
		{[]string{"product_view", "12345", "789"}, profile.Event{UserID: 12345, Type: profile.ProductView, ProductID: 789}},
	} {
		code, id, errs := publish(tc.arguments...)
		if code != 0 {
			t.Fatalf("%v: %d: %s", tc.arguments, code, errs)
		}
		d, ok, err := ch.Get(names.Queue, true) // the broker has confirmed it
		if err != nil || !ok {
			t.Fatalf("%v: nothing in the queue: %v", tc.arguments, err)
		}
		e := checkEvent(t, string(d.Body), tc.want)
		checkProperties(t, &d, id, &e)
	}
	b.DeleteQueue(t, vhost, names.Queue)
	if code, _, errs := publish("search", "1", "boots"); code != 1 || !strings.Contains(errs, "keyfold setup") {
		t.Errorf("without a queue: %d: %s", code, errs)
	}
}

// checkProperties compares a delivery with the message that keyfold itself makes
// of the event.
func checkProperties(t *testing.T, d *amqp.Delivery, id string, e *profile.Event) {
	t.Helper()
	want := rabbit.DefaultNames().EventMessage(d.Body, e)
	if d.Exchange != want.Exchange || d.RoutingKey != want.RoutingKey || d.MessageId != id || id != want.ID || d.Priority != want.Priority ||
		d.Timestamp.Unix() != want.Timestamp.Unix() {
		t.Errorf("it arrived as %s %s %s %d %v, want %+v", d.Exchange, d.RoutingKey, d.MessageId, d.Priority, d.Timestamp, want)
	}
	if d.ContentType != "application/json" || d.ContentEncoding != "utf-8" || d.DeliveryMode != amqp.Persistent || d.AppId == "" {
		t.Errorf("it arrived as %s, %s, delivery mode %d, of %q", d.ContentType, d.ContentEncoding, d.DeliveryMode, d.AppId)
	}
}
