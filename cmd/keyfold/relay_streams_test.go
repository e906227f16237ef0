package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
	"keyfold/source/stream"
	"keyfold/source/stream/reader"
)

// newStreamShop returns a shop whose events go to streams.
func newStreamShop(t *testing.T, kind string, broker *rabbittest.Broker) (*shop, stream.Config) {
	t.Helper()
	vhost := broker.VHost(t)
	uri := rabbittest.StreamURI(broker.StreamAddress(), vhost)
	s := &shop{
		stack: &stack{dsn: broker.DSN(vhost), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass},
		url:   newDatabase(t, kind),
	}
	s.more = []string{"--streams=4", "--rabbitmq-stream-uri=" + uri}
	s.setUp(t, "--streams=4", "--database-url", s.url)
	return s, stream.Config{URI: uri, Name: "keyfold test"}
}

// logged returns the events of all streams, those of each stream in its order.
func logged(t *testing.T, client stream.Config) (events []profile.Event) {
	t.Helper()
	var states []reader.State
	eventually(t, "all streams have leaders", func() (err error) {
		states, err = reader.Look(t.Context(), client, rabbit.DefaultNames())
		return err
	})
	for _, s := range states {
		if s.End == 0 {
			continue
		}
		var found []profile.Event
		// A broker that was killed ends connections while it starts its streams anew.
		eventually(t, s.Stream+" is read to its end", func() (err error) {
			found, err = eventsBefore(t, client, s)
			return err
		})
		events = append(events, found...)
	}
	return events
}

// eventsBefore returns a stream's events from its first one to the end that was seen.
func eventsBefore(t *testing.T, client stream.Config, s reader.State) (events []profile.Event, err error) {
	t.Helper()
	chunks := make(chan stream.Chunk, 1000)
	conn, err := stream.DialLeader(t.Context(), client, s.Stream)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.Background())
	_, err = conn.Subscribe(t.Context(), stream.Consume{Stream: s.Stream, From: stream.First, Credit: 1, Handle: func(_ context.Context, sub *stream.Subscription, c stream.Chunk) {
		chunks <- c
		_ = sub.Credit(1) // or the connection is lost, and the reading begins anew
	}})
	for next := uint64(0); err == nil && next < s.End; {
		select {
		case c := <-chunks:
			next = c.Next()
			events = append(events, eventsOf(t, &c)...)
		case <-conn.Done():
			err = conn.Err()
		}
	}
	return events, err
}

func eventsOf(t *testing.T, c *stream.Chunk) (events []profile.Event) {
	t.Helper()
	err := c.Each(func(_ uint64, m stream.Message) error {
		body, err := m.Body()
		if err != nil {
			return err
		}
		e, err := profile.ParseEvent(body, time.Now().Add(time.Hour))
		events = append(events, e)
		return err
	})
	must.OK(t, err)
	return events
}

// Relays as processes are killed with SIGKILL, three at a time, while they publish to streams:
// every row is in its stream once, behind its user's rows before it.
//
// Promise(outbox/streams-killed): Relays that publish to streams put every row there once, however
// often they are killed.
// Figure: 102 relays killed over 50,000 rows: 0 rows twice in a stream, 0 lost
func TestStreamRelayKill9(t *testing.T) {
	rounds, rows := 4, 4000
	if long {
		rounds, rows = 34, 50_000
	}
	s, client := newStreamShop(t, outbox.PostgreSQL, rabbittest.Shared(t))
	api := s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready()
	bodies := sampleOf(t, rows)
	noted := 0
	for i := range rounds {
		var kills []func()
		for range 3 {
			d, kill := s.spawn(t, "relay")
			d.ready()
			kills = append(kills, kill)
		}
		for from, to := rows*i/rounds, rows*(i+1)/rounds; from < to; from += 200 {
			api.accepted(bodies[from:min(from+200, to)]...)
		}
		time.Sleep(rand.N(100 * time.Millisecond)) // anywhere in a batch
		for _, kill := range kills {
			kill()
		}
		noted += s.count(t, "SELECT COUNT(*) FROM keyfold_publish_numbers WHERE noted IS NOT NULL")
	}
	s.service(t, "relay").ready()
	s.checkStreams(t, client, rows)
	if noted == 0 {
		t.Error("no relay was killed with groups on their way: the test proves nothing")
	}
	t.Logf("%d kills, %d rows, %d shards were left with groups on their way", 3*rounds, rows, noted)
}

// checkStreams waits until all rows are sent, and checks that each is in its stream once, behind
// its user's rows before it.
func (s *shop) checkStreams(t *testing.T, client stream.Config, rows int) {
	t.Helper()
	s.allSent(t)
	once, last := map[string]bool{}, map[int32]int64{}
	ids := s.rowIDs(t)
	for _, e := range logged(t, client) {
		if once[e.MessageID] {
			t.Errorf("row %d is in its stream twice", ids[e.MessageID])
		}
		once[e.MessageID] = true
		if ids[e.MessageID] < last[e.UserID] {
			t.Errorf("user %d: row %d is in its stream behind row %d", e.UserID, ids[e.MessageID], last[e.UserID])
		}
		last[e.UserID] = ids[e.MessageID]
	}
	if len(once) != rows {
		t.Errorf("%d of %d rows are in the streams", len(once), rows)
	}
}

// The broker is killed with SIGKILL while a relay publishes to its streams: every row is in its
// stream once, as the streams remember the numbers.
//
// Promise(outbox/streams-killed)
func TestStreamBrokerKill9(t *testing.T) {
	kills, rows := 3, 3000
	if long {
		kills, rows = 10, 20_000
	}
	broker := rabbittest.Own(t) // of which no other test here has any consequence
	s, client := newStreamShop(t, outbox.MariaDB, broker)
	// RabbitMQ 3 may lose streams that it has declared shortly before: it stops in order once.
	_, _ = broker.Eval("init:stop().") // it answers, or is gone by then
	eventually(t, "the broker stops", func() error {
		if broker.Running() {
			return errors.New("it runs")
		}
		return nil
	})
	broker.Restart(t)
	api := s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready()
	relay := s.service(t, "relay").ready()
	bodies := sampleOf(t, rows)
	for i := range kills {
		killed := make(chan struct{})
		time.AfterFunc(rand.N(500*time.Millisecond), func() { // anywhere in the batches of these rows
			broker.Kill()
			close(killed)
		})
		for from, to := rows*i/kills, rows*(i+1)/kills; from < to; from += 200 {
			api.accepted(bodies[from:min(from+200, to)]...)
		}
		<-killed
		broker.Restart(t)
		s.allSent(t) // a broker that is killed while it starts its streams may not start them again
	}
	s.checkStreams(t, client, rows)
	if n := relay.metric(`keyfold_relay_rows_total{outcome="unknown"}`); n < 1 {
		t.Log("no group was on its way when the broker was killed")
	}
}

// A backfill and the relay within ingest publish to streams, each row once, and an address
// without streams is named.
func TestOutboxToStreams(t *testing.T) {
	t.Parallel()
	s, client := newStreamShop(t, "sqlite", rabbittest.Shared(t))
	const rows = 400
	bodies := sampleOf(t, rows)
	storing := s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready()
	storing.accepted(bodies[:rows/2]...)
	storing.stop()
	away := s.flags("--rabbitmq-stream-uri=rabbitmq-stream://guest:guest@127.0.0.1:1/")
	if code, _, errs := keyfold(t.Context(), "", append([]string{"backfill"}, away...)...); code == 0 || !strings.Contains(errs, "rabbitmq_stream") {
		t.Errorf("backfill without streams: code %d, %s", code, errs)
	}
	if out := s.must(t, "backfill", "--rate=10000/s"); !strings.Contains(out, fmt.Sprint(rows/2, " rows published")) {
		t.Errorf("backfill says %s", out)
	}
	s.service(t, "ingest", "--relay", "--http-addr=127.0.0.1:0").ready().accepted(bodies[rows/2:]...)
	s.checkStreams(t, client, rows)
}
