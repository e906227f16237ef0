package rabbit

import (
	"regexp"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
)

// policies are those by which a classic queue without a net drops events in silence.
var policies = map[string]string{"time": `"message-ttl":1`, "length": `"max-length":3`}

// A policy that has messages expire, or bounds the queue, loses no event: it goes to the
// dead letters, or its publisher is refused. Of a queue that an earlier version declared
// the same holds under the policy that is its net.
func TestPoliciesLoseNoEvent(t *testing.T) {
	for name, policy := range policies {
		for _, version := range []string{"new", "earlier"} {
			t.Run(name+" "+version, func(t *testing.T) {
				s := unset(t)
				topology := Topology{Names: s.names, QueueType: Classic}
				if version == "earlier" {
					s.declareWithoutNet(topology)
				}
				if err := Setup(t.Context(), s.dsn, topology); err != nil {
					t.Fatal(err)
				}
				command, err := WithoutNet(t.Context(), s.dsn, topology)
				if err != nil || (command != "") != (version == "earlier") {
					t.Fatalf("the command %q, %v", command, err)
				}
				definition := "{" + policy + "}"
				if command != "" {
					net := regexp.MustCompile(`'{(.*)}'`).FindStringSubmatch(command)
					definition = "{" + net[1] + "," + policy + "}"
				}
				s.broker.SetPolicy(t, s.vhost, "^"+s.names.Queue+"$", definition)
				const n = 20
				stored := 0
				for _, err := range s.publisher(quick).Publish(within(t, ample), s.messages(n)) {
					if err == nil {
						stored++
					}
				}
				eventually(t, "each stored event is in a queue", func() bool {
					return s.depth(s.names.Queue)+s.depth(s.names.DeadLetters) == stored
				})
				if name == "time" {
					eventually(t, "all have expired", func() bool { return stored == n && s.depth(s.names.DeadLetters) == n })
				} else if stored == n {
					t.Error("the full queue refused nothing")
				}
			})
		}
	}
}

// declareWithoutNet declares the worker's queue as earlier versions did.
func (s *site) declareWithoutNet(topology Topology) {
	s.t.Helper()
	if _, err := s.channel().QueueDeclare(s.names.Queue, true, false, false, false, topology.mainArguments()); err != nil {
		s.t.Fatal(err)
	}
}

// A queue of an earlier version is kept by setup and taken by workers; one with other
// arguments is refused as ever.
func TestQueueWithoutNetIsTaken(t *testing.T) {
	b := rabbittest.Shared(t)
	vhost := b.VHost(t)
	s := &site{t: t, broker: b, vhost: vhost, dsn: b.DSN(vhost), names: DefaultNames()}
	for _, topology := range []Topology{{Names: s.names, QueueType: Classic}, {Names: s.names, QueueType: Classic, NoPriorities: true}} {
		s.declareWithoutNet(topology)
		if err := Setup(t.Context(), s.dsn, topology); err != nil {
			t.Fatal(err)
		}
		conn, err := amqp.Dial(s.dsn)
		if err != nil {
			t.Fatal(err)
		}
		if err := topology.check(conn); err != nil {
			t.Error(err)
		}
		other := topology
		other.NoPriorities = !other.NoPriorities
		if err := other.check(conn); engine.ReasonOf(err) != ReasonQueueMismatch {
			t.Errorf("other priorities: %v", err)
		}
		if command, err := WithoutNet(t.Context(), s.dsn, topology); err != nil || !strings.Contains(command, "-p "+vhost) {
			t.Errorf("%q, %v", command, err)
		}
		conn.Close()
		b.DeleteQueue(t, vhost, s.names.Queue)
	}
}
