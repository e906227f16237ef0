package topology

import (
	"regexp"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// policies are those by which a classic queue without a net drops events in silence.
var policies = map[string]string{"time": `"message-ttl":1`, "length": `"max-length":3`}

// A policy that has messages expire, or bounds the queue, loses no event: it goes to the
// dead letters, or its publisher is refused. Of a queue that an earlier version declared
// the same holds under the policy that is its net.
//
// Promise(rabbitmq/policies): What expires in the worker's queue becomes a dead letter and a full
// queue refuses; `status` names a policy that drops messages.
func TestPoliciesLoseNoEvent(t *testing.T) {
	for name, policy := range policies {
		for _, version := range []string{"new", "earlier"} {
			t.Run(name+" "+version, func(t *testing.T) {
				s := unset(t)
				topology := Config{Names: s.Names, QueueType: Classic}
				if version == "earlier" {
					s.declareWithoutNet(topology)
				}
				must.OK(t, Setup(t.Context(), s.DSN, topology))
				command, err := WithoutNet(t.Context(), s.DSN, topology)
				if err != nil || (command != "") != (version == "earlier") {
					t.Fatalf("the command %q, %v", command, err)
				}
				definition := "{" + policy + "}"
				if command != "" {
					net := regexp.MustCompile(`'{(.*)}'`).FindStringSubmatch(command)
					definition = "{" + net[1] + "," + policy + "}"
				}
				s.Broker.SetPolicy(t, s.VHost, "^"+s.Names.Queue+"$", definition)
				const n = 20
				stored := 0
				for _, err := range s.Publisher(sitetest.Quick).Publish(sitetest.Within(t, sitetest.Ample), s.Messages(n)) {
					if err == nil {
						stored++
					}
				}
				sitetest.Eventually(t, "each stored event is in a queue", func() bool {
					return s.Depth(s.Names.Queue)+s.Depth(s.Names.DeadLetters) == stored
				})
				if name == "time" {
					sitetest.Eventually(t, "all have expired", func() bool { return stored == n && s.Depth(s.Names.DeadLetters) == n })
				} else if stored == n {
					t.Error("the full queue refused nothing")
				}
			})
		}
	}
}

// declareWithoutNet declares the worker's queue as earlier versions did.
func (s *site) declareWithoutNet(topology Config) {
	s.T.Helper()
	if _, err := s.Channel().QueueDeclare(s.Names.Queue, true, false, false, false, topology.mainArguments()); err != nil {
		s.T.Fatal(err)
	}
}

// A queue of an earlier version is kept by setup and taken by workers; one with other
// arguments is refused as ever.
//
// Promise(rabbitmq/policies)
func TestQueueWithoutNetIsTaken(t *testing.T) {
	s := &site{sitetest.New(t, rabbittest.Shared(t))}
	for _, topology := range []Config{{Names: s.Names, QueueType: Classic}, {Names: s.Names, QueueType: Classic, NoPriorities: true}} {
		s.declareWithoutNet(topology)
		must.OK(t, Setup(t.Context(), s.DSN, topology))
		conn, err := amqp.Dial(s.DSN)
		must.OK(t, err)
		if err := topology.Check(conn); err != nil {
			t.Error(err)
		}
		other := topology
		other.NoPriorities = !other.NoPriorities
		if err := other.Check(conn); engine.ReasonOf(err) != rabbit.ReasonQueueMismatch {
			t.Errorf("other priorities: %v", err)
		}
		if command, err := WithoutNet(t.Context(), s.DSN, topology); err != nil || !strings.Contains(command, "-p "+s.VHost) {
			t.Errorf("%q, %v", command, err)
		}
		conn.Close()
		s.Broker.DeleteQueue(t, s.VHost, s.Names.Queue)
	}
}
