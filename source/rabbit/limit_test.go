package rabbit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
)

// newQuorumSite is a virtual host whose queues are quorum queues.
func newQuorumSite(t *testing.T) *site {
	b := rabbittest.Shared(t)
	vhost := b.VHost(t)
	s := &site{t: t, broker: b, vhost: vhost, dsn: b.DSN(vhost), names: DefaultNames()}
	if err := Setup(t.Context(), s.dsn, Topology{Names: s.names, QueueType: Quorum}); err != nil {
		t.Fatal(err)
	}
	return s
}

// A worker looks at its queue's arguments before it takes anything from it.
func TestQueueArgumentsAreChecked(t *testing.T) {
	limited := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(deliveryLimit)}
	for _, tc := range []struct {
		name      string
		kind      QueueType
		arguments amqp.Table
		reason    string
		parts     []string
	}{
		{"made by hand", Quorum, amqp.Table{"x-queue-type": "quorum"}, ReasonQueueMismatch, []string{"delete_queue", "keyfold setup"}},
		{"of an earlier version", Quorum, limited, ReasonQueueMismatch, []string{"x-dead-letter-exchange", "earlier version"}},
		{"of the other type", Classic, limited, ReasonQueueMismatch, []string{"x-queue-type", "RABBITMQ_QUEUE_TYPE"}},
		{"without priorities", Classic, nil, ReasonQueueMismatch, []string{"x-max-priority"}},
		{"of a version that named no type", Classic, amqp.Table{"x-max-priority": int32(maxPriority)}, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			s.broker.DeleteQueue(t, s.vhost, s.names.Queue)
			if _, err := s.channel().QueueDeclare(s.names.Queue, true, false, false, false, tc.arguments); err != nil {
				t.Fatal(err)
			}
			s.checked(t, tc.kind, s.names.Queue, tc.reason, tc.parts)
		})
	}
	t.Run("dead letters made by hand", func(t *testing.T) {
		s := newQuorumSite(t)
		s.broker.DeleteQueue(t, s.vhost, s.names.DeadLetters)
		if _, err := s.channel().QueueDeclare(s.names.DeadLetters, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		s.checked(t, Quorum, s.names.DeadLetters, ReasonQueueMismatch, []string{"x-delivery-limit"})
	})
	t.Run("missing", func(t *testing.T) {
		s := shared(t)
		s.broker.DeleteQueue(t, s.vhost, s.names.Queue)
		s.checked(t, Classic, s.names.Queue, ReasonQueueMissing, []string{"keyfold setup"})
		if _, err := s.channel().QueueDeclarePassive(s.names.Queue, true, false, false, false, nil); err == nil {
			t.Error("the check has made the queue")
		}
	})
	t.Run("of partitions", func(t *testing.T) {
		s := unset(t)
		s.partition(2)
		config := s.config()
		config.QueueType, config.Partitions = Quorum, &Partitions{Only: []int{0, 1}}
		config.checked(t, "", "", nil)
		config.QueueType = Classic
		config.checked(t, s.names.PartitionQueue(0), ReasonQueueMismatch, []string{"RABBITMQ_QUEUE_TYPE"})
		config.QueueType, config.Partitions = Quorum, &Partitions{Only: []int{1, 2}}
		config.checked(t, s.names.PartitionQueue(2), ReasonQueueMissing, []string{"keyfold setup"})
	})
	t.Run("as set up", func(t *testing.T) {
		shared(t).checked(t, Classic, "", "", nil)
		newQuorumSite(t).checked(t, Quorum, "", "", nil)
	})
	t.Run("without dead letters", func(t *testing.T) {
		s := shared(t)
		s.broker.DeleteQueue(t, s.vhost, s.names.DeadLetters)
		s.checked(t, Classic, "", "", nil)
	})
}

// checked runs a worker and sees it consume, or refuse with a reason, the queue
// and the parts of a cure.
func (s *site) checked(t *testing.T, kind QueueType, queue, reason string, parts []string) {
	t.Helper()
	config := s.config()
	config.QueueType = kind
	config.checked(t, queue, reason, parts)
}

func (config Config) checked(t *testing.T, queue, reason string, parts []string) {
	t.Helper()
	c, err := NewConsumer(config, Ports{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(within(t, ample))
	defer stop()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, Events(settleAtOnce)) }()
	if reason == "" {
		eventually(t, "it consumes", func() bool { return c.Ready() == nil })
		stop()
	}
	err = <-done
	if closed := c.Close(within(t, ample)); closed != nil {
		t.Error(closed)
	}
	if reason == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != reason {
		t.Fatalf("%v: %v", engine.KindOf(err), err)
	}
	for _, part := range append(parts, queue) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

// A user who may not declare cannot have the arguments compared: the worker
// says so and works.
func TestQueueArgumentsWithoutTheRight(t *testing.T) {
	s := shared(t)
	s.broker.AddUser(t, s.vhost, "s3cret")
	s.broker.Permit(t, s.vhost, s.vhost, "^$", ".*", ".*")
	config := s.config()
	config.QueueType = Classic
	config.DSN = strings.Replace(s.dsn, "guest:guest", s.vhost+":s3cret", 1)
	var log bytes.Buffer
	r := s.runLogged(slog.New(slog.NewTextHandler(&log, nil)), InProcess{}, config, settleAtOnce)
	eventually(t, "it consumes", func() bool { return r.Ready() == nil })
	if err := r.end(ample); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "arguments were not checked") || !strings.Contains(log.String(), "configure") {
		t.Error(log.String())
	}
}

// A message on its way to being given up is told of in time, once a session.
func TestManyDeliveriesAreToldOf(t *testing.T) {
	s := newQuorumSite(t)
	s.publish(s.messages(2)...)
	ch := s.channel()
	for range deliveriesWarned {
		var last uint64
		for range 2 {
			eventually(t, "a delivery", func() bool {
				d, ok, err := ch.Get(s.names.Queue, false)
				if err != nil {
					t.Fatal(err)
				}
				last = d.DeliveryTag
				return ok
			})
		}
		if err := ch.Nack(last, true, true); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	r := s.runLogged(slog.New(slog.NewTextHandler(&log, nil)), InProcess{}, s.config(), settleAtOnce)
	eventually(t, "both are acknowledged", func() bool { return r.Stats.Acked.Load() == 2 })
	if err := r.end(ample); err != nil {
		t.Error(err)
	}
	if strings.Count(log.String(), "delivered many times") != 1 || !strings.Contains(log.String(), "deliveries=10") ||
		!strings.Contains(log.String(), "delivery-limit") {
		t.Error(log.String())
	}
}

// The type of a queue is named, so that a virtual host's default is not taken.
func TestSetupNamesTheQueueType(t *testing.T) {
	b := rabbittest.Shared(t)
	vhost := fmt.Sprint("quorum by default ", time.Now().UnixNano())
	b.Control(t, "add_vhost", vhost, "--default-queue-type", "quorum")
	t.Cleanup(func() { b.Control(t, "delete_vhost", vhost) })
	b.Permit(t, vhost, "guest", ".*", ".*", ".*")
	topology := Topology{Names: DefaultNames(), QueueType: Classic, RetryDelays: tenMillis}
	if err := Setup(t.Context(), b.DSN(vhost), topology); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(b.Control(t, "list_queues", "-p", vhost, "name", "type", "--no-table-headers")), "\n") {
		name, kind, _ := strings.Cut(line, "\t")
		if want := map[bool]string{true: "quorum", false: "classic"}[strings.Contains(name, ".retry.")]; !strings.Contains(kind, want) {
			t.Errorf("queue %s is of type %s, want %s", name, kind, want)
		}
	}
}
