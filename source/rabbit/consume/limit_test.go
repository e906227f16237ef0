package consume

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// newQuorumSite is a virtual host whose queues are quorum queues.
func newQuorumSite(t *testing.T) *site {
	s := &site{sitetest.New(t, rabbittest.Shared(t))}
	must.OK(t, topology.Setup(t.Context(), s.DSN, topology.Config{Names: s.Names, QueueType: topology.Quorum}))
	return s
}

// A worker looks at its queue's arguments before it takes anything from it.
//
// Promise(partitions/other-arguments, rabbitmq/delivery-limit)
func TestQueueArgumentsAreChecked(t *testing.T) {
	limited := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(1 << 30)}
	for _, tc := range []struct {
		name      string
		kind      topology.QueueType
		arguments amqp.Table
		reason    string
		parts     []string
	}{
		{"made by hand", topology.Quorum, amqp.Table{"x-queue-type": "quorum"}, rabbit.ReasonQueueMismatch, []string{"delete_queue", "rabbit.Setup"}},
		{"of an earlier version", topology.Quorum, limited, rabbit.ReasonQueueMismatch, []string{"x-dead-letter-exchange", "earlier version"}},
		{"of the other type", topology.Classic, limited, rabbit.ReasonQueueMismatch, []string{"x-queue-type", "topology.Config.QueueType"}},
		{"without priorities", topology.Classic, nil, rabbit.ReasonQueueMismatch, []string{"x-max-priority"}},
		{"of a version that named no type", topology.Classic, amqp.Table{"x-max-priority": int32(10)}, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			s.Broker.DeleteQueue(t, s.VHost, s.Names.Queue)
			if _, err := s.Channel().QueueDeclare(s.Names.Queue, true, false, false, false, tc.arguments); err != nil {
				t.Fatal(err)
			}
			s.checked(t, tc.kind, s.Names.Queue, tc.reason, tc.parts)
		})
	}
	t.Run("dead letters made by hand", func(t *testing.T) {
		s := newQuorumSite(t)
		s.Broker.DeleteQueue(t, s.VHost, s.Names.DeadLetters)
		if _, err := s.Channel().QueueDeclare(s.Names.DeadLetters, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		s.checked(t, topology.Quorum, s.Names.DeadLetters, rabbit.ReasonQueueMismatch, []string{"x-delivery-limit"})
	})
	t.Run("missing", func(t *testing.T) {
		s := shared(t)
		s.Broker.DeleteQueue(t, s.VHost, s.Names.Queue)
		s.checked(t, topology.Classic, s.Names.Queue, rabbit.ReasonQueueMissing, []string{"rabbit.Setup"})
		if _, err := s.Channel().QueueDeclarePassive(s.Names.Queue, true, false, false, false, nil); err == nil {
			t.Error("the check has made the queue")
		}
	})
	t.Run("of partitions", func(t *testing.T) {
		s := &site{sitetest.New(t, sitetest.Broker(t))}
		s.partition(2)
		config := s.config()
		config.QueueType, config.Partitions = topology.Quorum, &Partitions{Only: []int{0, 1}}
		config.checked(t, "", "", nil)
		config.QueueType = topology.Classic
		config.checked(t, s.Names.PartitionQueue(0), rabbit.ReasonQueueMismatch, []string{"topology.Config.QueueType"})
		config.QueueType, config.Partitions = topology.Quorum, &Partitions{Only: []int{1, 2}}
		config.checked(t, s.Names.PartitionQueue(2), rabbit.ReasonQueueMissing, []string{"rabbit.Setup"})
	})
	t.Run("as set up", func(t *testing.T) {
		shared(t).checked(t, topology.Classic, "", "", nil)
		newQuorumSite(t).checked(t, topology.Quorum, "", "", nil)
	})
	t.Run("without dead letters", func(t *testing.T) {
		s := shared(t)
		s.Broker.DeleteQueue(t, s.VHost, s.Names.DeadLetters)
		s.checked(t, topology.Classic, "", "", nil)
	})
}

// checked runs a worker and sees it consume, or refuse with a reason, the queue
// and the parts of a cure.
func (s *site) checked(t *testing.T, kind topology.QueueType, queue, reason string, parts []string) {
	t.Helper()
	config := s.config()
	config.QueueType = kind
	config.checked(t, queue, reason, parts)
}

func (config Config) checked(t *testing.T, queue, reason string, parts []string) {
	t.Helper()
	c, err := New(config, Ports{Log: sitetest.Quiet})
	must.OK(t, err)
	ctx, stop := context.WithCancel(sitetest.Within(t, sitetest.Ample))
	defer stop()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, Events(settleAtOnce)) }()
	if reason == "" {
		sitetest.Eventually(t, "it consumes", func() bool { return c.Ready() == nil })
		stop()
	}
	err = <-done
	if closed := c.Close(sitetest.Within(t, sitetest.Ample)); closed != nil {
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
//
// Promise(rabbitmq/delivery-limit)
func TestQueueArgumentsWithoutTheRight(t *testing.T) {
	s := shared(t)
	s.Broker.AddUser(t, s.VHost, "s3cret")
	s.Broker.Permit(t, s.VHost, s.VHost, "^$", ".*", ".*")
	config := s.config()
	config.QueueType = topology.Classic
	config.DSN = strings.Replace(s.DSN, "guest:guest", s.VHost+":s3cret", 1)
	var log bytes.Buffer
	r := s.runLogged(slog.New(slog.NewTextHandler(&log, nil)), InProcess{}, config, settleAtOnce)
	sitetest.Eventually(t, "it consumes", func() bool { return r.Ready() == nil })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "arguments were not checked") || !strings.Contains(log.String(), "configure") {
		t.Error(log.String())
	}
}

// A message on its way to being given up is told of in time, once a session.
//
// Promise(rabbitmq/delivery-limit)
func TestManyDeliveriesAreToldOf(t *testing.T) {
	s := newQuorumSite(t)
	s.Publish(s.Messages(2)...)
	ch := s.Channel()
	for range deliveriesWarned {
		var last uint64
		for range 2 {
			sitetest.Eventually(t, "a delivery", func() bool {
				d, ok, err := ch.Get(s.Names.Queue, false)
				must.OK(t, err)
				last = d.DeliveryTag
				return ok
			})
		}
		must.OK(t, ch.Nack(last, true, true))
	}
	var log bytes.Buffer
	r := s.runLogged(slog.New(slog.NewTextHandler(&log, nil)), InProcess{}, s.config(), settleAtOnce)
	sitetest.Eventually(t, "both are acknowledged", func() bool { return r.Stats.Acked.Load() == 2 })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	if strings.Count(log.String(), "delivered many times") != 1 || !strings.Contains(log.String(), "deliveries=10") ||
		!strings.Contains(log.String(), "delivery-limit") {
		t.Error(log.String())
	}
}
