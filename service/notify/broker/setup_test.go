package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/topology"
)

// Each type is bound to one of the two input queues, by its class.
func TestEachTypeHasOneQueue(t *testing.T) {
	for _, kind := range notify.EventTypes {
		urgent, bulk := slices.Contains(Urgent().Bindings, eventKey(kind)), slices.Contains(Bulk().Bindings, eventKey(kind))
		if urgent != kind.Urgent() || urgent == bulk {
			t.Errorf("%s: urgent %v, bulk %v", kind, urgent, bulk)
		}
	}
	if n := len(Urgent().Bindings) + len(Bulk().Bindings); n != len(notify.EventTypes) {
		t.Errorf("%d bindings", n)
	}
}

// The consumers size what they hold, and dead letters, by the largest body of any
// application.
func TestBodiesFitTheConsumers(t *testing.T) {
	if notify.MaxBodyBytes > profile.MaxBodyBytes {
		t.Errorf("an event may have %d bytes, and source/rabbit is made for %d", notify.MaxBodyBytes, profile.MaxBodyBytes)
	}
}

// Setup may run again, and messages of each key arrive where they belong.
//
// Promise(dispatch/setup): A repeated `notify setup` changes nothing that exists; with a server away
// the other is set up, and one call names every fault.
func TestSetupRoutes(t *testing.T) {
	for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum} {
		t.Run(string(kind), func(t *testing.T) {
			s := newSite(t, kind)
			if err := Setup(t.Context(), s.dsn, Topology{QueueType: kind, RetryDelays: rabbit.RetryDelays(20*time.Millisecond, 1)}); err != nil {
				t.Fatalf("again: %v", err)
			}
			want := map[string]int{"notification_events_failed": 0, "notification_deliveries_failed": 0}
			for _, queue := range []string{"notification_events_urgent", "notification_events", "notification_deliveries"} {
				want[queue], want[queue+".retry.20"] = 4, 0
			}
			var messages []rabbit.Message
			send := func(exchange, key string) {
				messages = append(messages, rabbit.Message{Exchange: exchange, RoutingKey: key, ID: fmt.Sprint(len(messages))})
			}
			for _, kind := range notify.EventTypes {
				send("notifications", "notification."+kind.String())
			}
			for _, status := range []string{"PENDING", "DELIVERED", "DELIVERY_FAILED", "unknown"} {
				send("notification_delivery", "delivery."+status)
			}
			for _, channel := range notify.Channels {
				want["notification_dispatch."+channel.String()] = len(notify.EventTypes)
				for _, kind := range notify.EventTypes {
					send("notification_dispatch", "dispatch."+channel.String()+"."+kind.String())
				}
			}
			s.publish(t, messages...)
			must.Hold(t, "each message is where it belongs", func() bool { // quorum queues count with a delay
				depths, err := s.Depths(s.vhost)
				return err == nil && maps.Equal(depths, want)
			})
		})
	}
}

// Dispatch queues are quorum queues that refuse what they have no room for, whatever
// the type of the others, and give no dispatch up however often it is delivered.
//
// Promise(dispatch/quorum): Quorum queues never give a dispatch up, and refuse what they have no room
// for: it is published again.
func TestDispatchQueues(t *testing.T) {
	s := newSite(t, topology.Classic)
	value, err := s.Eval(fmt.Sprintf(
		`[[if is_binary(V) -> binary_to_list(V); true -> V end || {_, _, V} <- A] || [{name, {resource, _, queue, N}}, {arguments, A}] <- rabbit_amqqueue:info_all(<<%q>>, [name, arguments]), binary:match(N, <<"dispatch">>) =/= nomatch].`, s.vhost))
	must.OK(t, err)
	for _, part := range []string{`"quorum"`, `"reject-publish"`, "1073741824"} {
		if n := strings.Count(value, part); n != len(notify.Channels) {
			t.Errorf("%d times %s in %s", n, part, value)
		}
	}
	if strings.Contains(value, "dead-letter") {
		t.Errorf("dispatches have dead letters: %s", value)
	}
}

// What is at fault names the commands of this application as the cure.
//
// Promise(dispatch/setup)
func TestCuresNameNotify(t *testing.T) {
	s := newSite(t, topology.Classic)
	err := Setup(t.Context(), s.dsn, Topology{QueueType: topology.Quorum})
	if engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "broker.Setup") ||
		!strings.Contains(err.Error(), "notification_events_urgent") {
		t.Errorf("%v", err)
	}
	empty := rabbittest.Shared(t)
	consumer, err := consume.New(consume.Config{
		DSN: empty.DSN(empty.VHost(t)), Names: Bulk(), Identity: rabbit.ThisProcess("test"), Prefetch: 1, Describe: Describe,
		RetryDelay: time.Second,
	}, consume.Ports{Retries: consume.InProcess{}, Log: quiet})
	must.OK(t, err)
	done := make(chan error, 1)
	go func() { done <- consumer.Run(t.Context(), Events(nil, engine.Now)) }()
	must.Hold(t, "the missing queue is told", func() bool { return engine.ReasonOf(consumer.Ready()) == rabbit.ReasonQueueMissing })
	if err := consumer.Ready(); !strings.Contains(err.Error(), "broker.Setup") || strings.Contains(err.Error(), "rabbit.Setup") {
		t.Error(err)
	}
	_ = consumer.Close(t.Context())
	<-done
}
