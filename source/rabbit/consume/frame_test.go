package consume

import (
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// A message whose headers fill a frame cannot be delivered again by a quorum queue, which
// adds one to them. The consumer names the cure, and goes on once that is done.
//
// Promise(partitions/full-frame): A quorum queue stands still at a redelivered message with a full
// frame; `/readyz` and log name the cure, a higher frame_max.
func TestAFullFrameThatIsDeliveredAgain(t *testing.T) {
	s := newSite(t, sitetest.OwnBroker(t))
	s.Broker.DeleteQueue(t, s.VHost, s.Names.Queue)
	must.OK(t, topology.Setup(t.Context(), s.DSN, topology.Config{Names: s.Names, QueueType: topology.Quorum}))
	const fixed = 26 + len("own") + 6 // of a frame with one header and no property
	m := s.Messages(2)
	ch := s.Channel()
	err := ch.Publish(m[0].Exchange, m[0].RoutingKey, true, false, amqp.Publishing{
		Headers: amqp.Table{"own": strings.Repeat("x", 128<<10-fixed)}, Body: m[0].Body,
	})
	must.OK(t, err)
	s.Publish(m[1])
	deliveries, err := ch.Consume(s.Names.Queue, "reader", false, false, false, false, nil)
	must.OK(t, err)
	first := <-deliveries
	// A consumer that went on would get the frame that is too large, in place of the close's answer.
	must.OK(t, errors.Join(ch.Cancel("reader", false), first.Reject(true), ch.Close()))
	r := s.run(s.config(), settleAtOnce)
	sitetest.Eventually(t, "the cure is named", func() bool {
		err := r.Ready()
		return err != nil && strings.Contains(err.Error(), "set_env(rabbit, frame_max, 262144)")
	})
	sitetest.SetEnv(t, s.Broker, "frame_max", 256<<10)
	sitetest.Eventually(t, "both are acknowledged", func() bool { return r.Stats.Acked.Load() == 2 })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
}

// A connection that was open for long was not ended by a message that fits no frame: the
// process stood still, or the broker went away.
func TestALostConnectionBlamesNoFrame(t *testing.T) {
	fault := &amqp.Error{Code: amqp.FrameError, Reason: "EOF"}
	if err := lost(fault, 30*time.Second); strings.Contains(err.Error(), "frame_max") {
		t.Errorf("after 30 s: %v", err)
	}
	if err := lost(fault, time.Second); !strings.Contains(err.Error(), "frame_max") {
		t.Errorf("at once: %v", err)
	}
	silent := &amqp.Error{Code: amqp.FrameError, Reason: rabbit.ErrSilent.Error()}
	if err := lost(silent, time.Second); strings.Contains(err.Error(), "frame_max") || !strings.Contains(err.Error(), "gives no answer in time") {
		t.Errorf("a broker that does not answer: %v", err)
	}
}
