package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/service/status"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// alertsOfStreams are those that TestAlertsOfStreams fires.
var alertsOfStreams = []string{"KeyfoldStreamLate", "KeyfoldStreamTruncated", "KeyfoldStreamUnread"}

// Promise(monitoring/alerts)
func TestAlertsOfStreams(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	vhost := broker.VHost(t)
	s := &stack{dsn: broker.DSN(vhost), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	stream := rabbit.DefaultNames().StreamQueue(rabbit.Stream{Generation: 1})
	channel := smallStream(t, s.dsn, stream)
	f := newScrapes(t)
	flags := []string{"--streams=1", "--rabbitmq-stream-uri=" + rabbittest.StreamURI(broker.StreamAddress(), vhost), quick}
	n := 0
	publish := func(events, size int) {
		t.Helper()
		for range events {
			n++
			body := event(1, profile.ProductView, 1, time.Now(), fmt.Sprint("alerts ", n))
			body = bytes.Replace(body, []byte("mobile"), bytes.Repeat([]byte("x"), size), 1)
			must.OK(t, channel.PublishWithContext(t.Context(), "", stream, false, false, amqp.Publishing{Body: body}))
		}
	}
	settled := func(w *daemon) {
		t.Helper()
		eventually(t, "all that was read is settled", func() error {
			if read, lag := w.metric("keyfold_stream_read_total"), w.metric("keyfold_stream_lag_seconds"); read == 0 || lag != 0 {
				return fmt.Errorf("%d read, lag %d", read, lag)
			}
			return nil
		})
	}

	first := s.work(t, flags...).ready()
	f.of("worker-1:9090", first)
	publish(3, 10)
	settled(first)
	f.scrape()
	f.hold(10)
	f.silent("a stream that is read")

	// While no worker runs, retention takes what was not read.
	first.stop()
	f.gone("worker-1:9090")
	publish(120, 40_000)
	eventually(t, "the stream begins behind what was read", func() error {
		rows := listStreams(t, s, flags[:2])
		if len(rows) == 1 && rows[0].First > rows[0].Position {
			return nil
		}
		publish(10, 40_000)
		return fmt.Errorf("%+v", rows)
	})
	second := s.work(t, flags...)
	f.of("worker-2:9090", second)
	second.ready()
	f.note(zeroed(f.read(), "keyfold_stream_truncated_total")) // as it was before its first look
	settled(second)
	f.scrape()
	f.hold(5)
	f.fires("retention took events", []string{"KeyfoldStreamTruncated"})
	f.hold(60)
	f.silent("an hour later")

	// A window that is open for longer than anybody wants.
	second.stop()
	f.gone("worker-2:9090")
	third := s.work(t, append(flags[:2:2], "--batch-window=10m", "--batch-max-delay=10m")...).ready()
	f.of("worker-3:9090", third)
	publish(1, 10)
	for end := time.Now().Add(5 * time.Minute); third.metric("keyfold_stream_lag_seconds") <= 60; {
		if time.Now().After(end) {
			t.Fatal("the lag does not grow")
		}
		time.Sleep(time.Second)
	}
	f.scrape()
	f.hold(6)
	f.fires("events are settled late", []string{"KeyfoldStreamLate"})

	// The stream is deleted.
	_, err := channel.QueueDelete(stream, false, false, false)
	must.OK(t, err)
	eventually(t, "a stream is not read", func() error {
		if n := third.metric("keyfold_stream_unread"); n != 1 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	f.scrape("worker-3:9090 keyfold_ready")
	f.hold(6)
	f.fires("a stream is gone", []string{"KeyfoldNotReady", "KeyfoldStreamUnread"}, "KeyfoldStreamLate")
	f.judge()
	for _, alert := range alertsOfStreams {
		if !f.expected(alert) {
			t.Errorf("no fault fires %s", alert)
		}
	}
}

// smallStream makes a stream whose retention works soon: it keeps little, in small segments.
func smallStream(t *testing.T, dsn, stream string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(dsn)
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	must.OK(t, err)
	_, err = channel.QueueDeclare(stream, true, false, false, false, amqp.Table{
		"x-queue-type": "stream", "x-max-length-bytes": int64(1_000_000), "x-stream-max-segment-size-bytes": int64(500_000),
	})
	must.OK(t, err)
	return channel
}

func listStreams(t *testing.T, s *stack, flags []string) (rows []status.Stream) {
	t.Helper()
	code, out, errs := s.run(t, "", append([]string{"streams", "list", "-o", "json"}, flags...)...)
	if code != 0 {
		t.Fatalf("streams list: %s", errs)
	}
	must.OK(t, json.Unmarshal([]byte(out), &rows))
	return rows
}

// zeroed returns pages with a counter at 0.
func zeroed(pages []map[string]float64, counter string) []map[string]float64 {
	for _, page := range pages {
		if _, there := page[counter]; there {
			page[counter] = 0
		}
	}
	return pages
}
