package rabbittest

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/internal/testserver/must"
)

// Queues says at once what a queue holds and which consumer is active, of both types on
// both versions.
func TestQueues(t *testing.T) {
	for _, major := range []int{3, 4} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			b := SharedVersion(t, major)
			vhost := b.VHost(t)
			if queues, err := b.Queues(vhost); err != nil || len(queues) != 0 {
				t.Fatalf("%v, %v: want no queue", queues, err)
			}
			conn, err := amqp.Dial(b.DSN(vhost))
			must.OK(t, err)
			defer conn.Close()
			for _, kind := range []string{"classic", "quorum"} {
				testQueue(t, b, vhost, conn, kind)
			}
		})
	}
}

func testQueue(t *testing.T, b *Broker, vhost string, conn *amqp.Connection, kind string) {
	t.Helper()
	ch, err := conn.Channel()
	must.OK(t, err)
	arguments := amqp.Table{"x-queue-type": kind, "x-single-active-consumer": true}
	if _, err := ch.QueueDeclare(kind, true, false, false, false, arguments); err != nil {
		t.Fatal(err)
	}
	must.OK(t, ch.Confirm(false))
	for n := range 5 {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", kind, false, false, amqp.Publishing{Body: []byte("x")})
		must.OK(t, err)
		if _, err := confirm.WaitContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if queues, err := b.Queues(vhost); err != nil || queues[kind] != (Queue{Ready: n + 1, Messages: n + 1}) {
			t.Errorf("%s after %d confirmed messages: %+v, %v", kind, n+1, queues[kind], err)
		}
	}
	must.OK(t, ch.Qos(2, 0, false))
	if _, err := ch.Consume(kind, "some host:17 1", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	want := Queue{Ready: 3, Messages: 5, Consumers: 1, Active: "some host:17 1"}
	var got Queue
	for end := time.Now().Add(2 * time.Minute); got != want && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		queues, err := b.Queues(vhost)
		must.OK(t, err)
		got = queues[kind]
	}
	if got != want {
		t.Errorf("%s: %+v, want %+v", kind, got, want)
	}
}
