package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// managed is a stack at a broker whose management gathers statistics, as it does by default.
type managed struct {
	*stack
	broker *rabbittest.Broker
	vhost  string
}

func newManaged(t *testing.T) *managed {
	t.Helper()
	t.Parallel()
	broker := rabbittest.SharedWithStatistics(t)
	vhost := broker.VHost(t)
	m := &managed{&stack{dsn: broker.DSN(vhost), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}, broker, vhost}
	m.setUp(t)
	return m
}

// read asks RabbitMQ's management.
func (m *managed) read(t *testing.T, path string, into any) error {
	return m.broker.Manage(t.Context(), http.MethodGet, path, nil, into)
}

// managedQueue is a queue as an operator sees it.
type managedQueue struct {
	Messages  int `json:"messages"`
	Consumers int `json:"consumers"`
	Stats     struct {
		Publish     int `json:"publish"`
		PublishRate struct {
			Rate float64 `json:"rate"`
		} `json:"publish_details"`
		Ack     int `json:"ack"`
		AckRate struct {
			Rate float64 `json:"rate"`
		} `json:"ack_details"`
	} `json:"message_stats"`
}

func (m *managed) queue(t *testing.T, name string) (q managedQueue, err error) {
	return q, m.read(t, "queues/"+m.vhost+"/"+name, &q)
}

// Story 5.1: the management shows the queue's depth, the rates of publishing and of
// acknowledging, and the worker's connection by name.
//
// Promise(monitoring/depth): RabbitMQ's management shows the queue's depth, its rates, and each
// worker's connection by name.
func TestStory5_DepthRatesAndWorkersAreShown(t *testing.T) {
	m := newManaged(t)
	queue := rabbit.DefaultNames().Queue
	m.publish(t, sample.Events(sample.DefaultConfig(5))...)
	eventually(t, "the depth is shown", func() error {
		q, err := m.queue(t, queue)
		if err == nil && (q.Messages == 0 || q.Messages != m.depth(t, queue)) {
			err = fmt.Errorf("%+v", q)
		}
		return err
	})
	m.work(t, quick).ready()
	n := 0
	eventually(t, "the rates are shown", func() error {
		n++
		m.publish(t, event(int32(n%50+1), profile.ProductView, 1+n%100, hourAgo(), fmt.Sprint("rate ", n)))
		q, err := m.queue(t, queue)
		if err == nil && (q.Stats.PublishRate.Rate == 0 || q.Stats.AckRate.Rate == 0 || q.Consumers == 0) {
			err = fmt.Errorf("%+v", q)
		}
		return err
	})
	eventually(t, "the worker is shown", func() error {
		workers, err := m.workers(t)
		if err == nil && len(workers) != 1 {
			err = fmt.Errorf("connections of workers: %v", workers)
		}
		return err
	})
}

// workers returns what the connections that workers consume with are called at the broker,
// by their names there.
func (m *managed) workers(t *testing.T) (names map[string]string, err error) {
	var connections []struct {
		Name       string `json:"name"`
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	names = map[string]string{}
	err = m.read(t, "vhosts/"+m.vhost+"/connections", &connections)
	for _, c := range connections {
		if strings.HasPrefix(c.Properties.Name, "keyfold worker consumer ") {
			names[c.Name] = c.Properties.Name
		}
	}
	return names, err
}

// Story 5.2: failed messages are counted in the dead-letter queue, and their contents and
// reasons can be read there; the worker's own counts agree.
//
// Promise(monitoring/failures): RabbitMQ's management counts failed messages and shows their contents
// and reasons; the worker counts the same.
func TestStory5_FailuresAndDeadLettersAreShown(t *testing.T) {
	m := newManaged(t)
	d := m.work(t, quick).ready()
	const failed = 3
	bodies := sample.Events(sample.DefaultConfig(20))
	for i := range failed {
		bodies = append(bodies, fmt.Appendf(nil, `{"user_id": "broken %d"}`, i))
	}
	m.publish(t, bodies...)
	letters := rabbit.DefaultNames().DeadLetters
	eventually(t, "the failures are counted", func() error {
		q, err := m.queue(t, letters)
		if err == nil && q.Messages != failed {
			err = fmt.Errorf("%+v", q)
		}
		return err
	})
	var read []struct {
		Payload    string `json:"payload"`
		Properties struct {
			Headers map[string]any `json:"headers"`
		} `json:"properties"`
	}
	ask := map[string]any{"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto"}
	must.OK(t, m.broker.Manage(t.Context(), http.MethodPost, "queues/"+m.vhost+"/"+letters+"/get", ask, &read))
	if len(read) != failed {
		t.Fatalf("%d letters are shown", len(read))
	}
	for _, l := range read {
		if !strings.Contains(l.Payload, "broken ") || l.Properties.Headers[rabbit.HeaderReason] == nil {
			t.Errorf("a letter is shown as %+v", l)
		}
	}
	eventually(t, "the worker counts the same", func() error {
		_, page := d.get("/metrics")
		for _, want := range []string{`keyfold_events_total{outcome="dead"} 3`, "keyfold_dead_letters_total 3"} {
			if !strings.Contains(page, want+"\n") {
				return errors.New("no " + want)
			}
		}
		return nil
	})
}

// Story 5.3: of several workers the management shows the consumers, and how many messages
// each was given; the workers' own counts agree.
//
// Promise(monitoring/shares): RabbitMQ's management shows the consumers and each one's share of the
// messages; the workers count the same.
func TestStory5_ConsumersAndTheirSharesAreShown(t *testing.T) {
	m := newManaged(t)
	bodies := sample.Events(sample.DefaultConfig(100))
	all := []*daemon{m.work(t, quick).ready(), m.work(t, quick).ready()}
	m.publish(t, bodies...)
	m.settled(t, m.expect(t, bodies))
	counted := map[string]int64{}
	var total int64
	for i, d := range all {
		n := d.metric("keyfold_rabbitmq_delivered_total")
		counted[fmt.Sprint("worker ", i)] = n
		total += n
	}
	eventually(t, "each worker's share is shown", func() error {
		workers, err := m.workers(t)
		if err != nil || len(workers) != len(all) {
			return fmt.Errorf("workers %v (%w)", workers, err)
		}
		var channels []struct {
			Consumers  int `json:"consumer_count"`
			Connection struct {
				Name string `json:"name"`
			} `json:"connection_details"`
			Stats struct {
				Deliver int64 `json:"deliver"`
			} `json:"message_stats"`
		}
		if err := m.read(t, "vhosts/"+m.vhost+"/channels", &channels); err != nil {
			return err
		}
		shares, consumers, shown := map[string]int64{}, 0, int64(0)
		for _, c := range channels {
			if _, is := workers[c.Connection.Name]; is {
				shares[c.Connection.Name] += c.Stats.Deliver
				shown += c.Stats.Deliver
				consumers += c.Consumers
			}
		}
		q, err := m.queue(t, rabbit.DefaultNames().Queue)
		if err != nil || q.Consumers != consumers || consumers < 2 {
			return fmt.Errorf("%d consumers of channels, the queue has %d (%w)", consumers, q.Consumers, err)
		}
		for _, n := range shares {
			if n == 0 || n != counted["worker 0"] && n != counted["worker 1"] {
				return fmt.Errorf("shares %v, the workers count %v", shares, counted)
			}
		}
		if len(shares) != len(all) || shown != total {
			return fmt.Errorf("shares %v are %d messages, the workers count %d", shares, shown, total)
		}
		return nil
	})
}
