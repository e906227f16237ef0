package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
	"keyfold/source/stream"
)

// cluster is a shop on three nodes, which it reaches by addresses that lead to any of them.
type cluster struct {
	*shop
	nodes  []*rabbittest.Broker
	client stream.Config
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{nodes: rabbittest.StartCluster(t, 4, 3)}
	var amqp, streams []string
	for _, n := range c.nodes {
		amqp, streams = append(amqp, n.Address()), append(streams, n.StreamAddress())
	}
	vhost := c.nodes[0].VHost(t)
	uri := rabbittest.StreamURI(rabbittest.NewProxy(t, streams...).Address(), vhost)
	c.client = stream.Config{URI: uri, Name: "keyfold test"}
	c.shop = &shop{
		stack: &stack{
			dsn: rabbittest.DSN(rabbittest.NewProxy(t, amqp...).Address(), vhost), mongo: mongotest.Start(t).URI(),
			products: sample.Products(), history: profile.Mass,
		},
		url:  newDatabase(t, "sqlite"),
		more: []string{"--streams=4", "--rabbitmq-stream-uri=" + uri, "--rabbitmq-queue-type=quorum"},
	}
	c.setUp(t, append([]string{"--database-url", c.url}, c.more...)...)
	for _, n := range c.nodes {
		n.Flush(t)
	}
	return c
}

// leader returns the node that leads a stream.
func (c *cluster) leader(t *testing.T, partition int) (node *rabbittest.Broker) {
	t.Helper()
	name := rabbit.DefaultNames().StreamQueue(rabbit.Stream{Generation: 1, Partition: partition})
	eventually(t, name+" has a leader", func() error {
		conn, err := stream.Dial(t.Context(), c.client)
		if err != nil {
			return err
		}
		defer conn.Close(t.Context())
		all, err := conn.Metadata(t.Context(), name)
		if err != nil {
			return err
		}
		for _, n := range c.nodes {
			if n.StreamAddress() == all[name].Leader.String() {
				node = n
				return nil
			}
		}
		return all[name].Err
	})
	return node
}

// The node that leads a stream is killed with SIGKILL while a relay publishes to it and a worker
// reads it, and comes back.
//
// Promise(streams/cluster): On a cluster the loss of a stream's leader loses and doubles no event, and its streams
// are read on; without most nodes /readyz says so.
func TestStreamClusterKill9(t *testing.T) {
	c := newCluster(t)
	const rows = 6000
	bodies := sampleOf(t, rows+200)
	w := c.service(t, "work", quick)
	w.ready()
	api := c.service(t, "ingest", "--relay", "--http-addr=127.0.0.1:0").ready()
	for i := range 2 {
		leader := c.leader(t, i)
		killed := make(chan struct{})
		time.AfterFunc(200*time.Millisecond, func() {
			leader.Kill()
			close(killed)
		})
		for from, to := rows*i/2, rows*(i+1)/2; from < to; from += 200 {
			api.accepted(bodies[from:min(from+200, to)]...)
		}
		<-killed
		c.allSent(t)
		c.settled(t, c.expect(t, bodies[:rows*(i+1)/2]))
		leader.Restart(t)
	}
	c.checkStreams(t, c.client, rows)

	// Without most of the nodes the last one takes connections, and answers little.
	for _, n := range c.nodes[1:] {
		n.Kill()
	}
	eventually(t, "the worker says that the broker does not answer", func() error {
		if code, body := w.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "more than half of the nodes run") {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	for _, n := range c.nodes[1:] {
		n.Restart(t)
	}
	w.ready()
	api.accepted(bodies[rows:]...)
	c.allSent(t)
	c.settled(t, c.expect(t, bodies))
}
