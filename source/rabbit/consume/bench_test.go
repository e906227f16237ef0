package consume

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

const preloaded = 20_000

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure drains a preloaded queue per iteration and reports rate and processor
// time per event.
func measure(b *testing.B, drain func(s *site)) {
	s := newSite(b, rabbittest.Shared(b))
	messages := s.Messages(preloaded)
	p := s.Publisher(rabbit.Timing{})
	var wall, cpu time.Duration
	for b.Loop() {
		for _, err := range p.Publish(sitetest.Within(b, time.Minute), messages) {
			must.OK(b, err)
		}
		start, used := time.Now(), processorTime()
		drain(s)
		wall, cpu = wall+time.Since(start), cpu+processorTime()-used
		if n := s.Depth(s.Names.Queue); n != 0 {
			b.Fatalf("%d messages left", n)
		}
	}
	events := float64(b.N) * preloaded
	b.ReportMetric(events/wall.Seconds(), "events/s")
	b.ReportMetric(cpu.Seconds()*1e6/events, "cpu-us/event")
}

// BenchmarkBareConsumer is the measure: the library alone, each message decoded
// with the standard decoder and acknowledged.
func BenchmarkBareConsumer(b *testing.B) {
	measure(b, func(s *site) {
		conn, err := amqp.Dial(s.DSN)
		must.OK(b, err)
		defer conn.Close()
		ch, err := conn.Channel()
		must.OK(b, err)
		must.OK(b, ch.Qos(8192, 0, false))
		deliveries, err := ch.Consume(s.Names.Queue, "", false, false, false, false, nil)
		must.OK(b, err)
		for range preloaded {
			d := <-deliveries
			var m struct {
				UserID     int32     `json:"user_id"`
				EventType  string    `json:"event_type"`
				ProductID  *int32    `json:"product_id"`
				OccurredAt time.Time `json:"occurred_at"`
				MessageID  string    `json:"message_id"`
			}
			must.OK(b, json.Unmarshal(d.Body, &m))
			must.OK(b, d.Ack(false))
		}
	})
}

func (s *site) drain(config Config, deliver profile.Deliver, acked int64) {
	r := s.run(config, deliver)
	for r.Stats.Acked.Load() < acked {
		time.Sleep(100 * time.Microsecond)
	}
	must.OK(s.T, r.end(sitetest.Ample))
}

func BenchmarkConsumer(b *testing.B) {
	measure(b, func(s *site) {
		config := s.config()
		config.Prefetch = 8192
		s.drain(config, settleAtOnce, preloaded)
	})
}

// BenchmarkConsumerScattered settles in random order with thousands open, as
// windows do.
func BenchmarkConsumerScattered(b *testing.B) {
	measure(b, func(s *site) {
		config := s.config()
		config.Prefetch = 8192
		var open []profile.Delivery
		got := 0
		s.drain(config, func(_ context.Context, deliveries []profile.Delivery) error {
			open = append(open, deliveries...)
			got += len(deliveries)
			for len(open) > 6000 || got == preloaded && len(open) > 0 {
				i := rand.IntN(len(open))
				open[i].Settler.Settle(folded)
				open[i] = open[len(open)-1]
				open = open[:len(open)-1]
			}
			return nil
		}, preloaded)
	})
}

// BenchmarkConsumerWindows settles a user's events together, the oldest window
// first, as a worker under pressure does.
func BenchmarkConsumerWindows(b *testing.B) {
	measure(b, func(s *site) {
		config := s.config()
		config.Prefetch = 8192
		zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 10, 1999)
		windows := map[uint64][]profile.Delivery{}
		var oldest []uint64
		open, got := 0, 0
		s.drain(config, func(_ context.Context, deliveries []profile.Delivery) error {
			for _, d := range deliveries {
				user := zipf.Uint64()
				if windows[user] == nil {
					oldest = append(oldest, user)
				}
				windows[user] = append(windows[user], d)
			}
			open, got = open+len(deliveries), got+len(deliveries)
			if open < 6144 && got < preloaded {
				return nil
			}
			for open > 4096 || got == preloaded && open > 0 {
				for _, d := range windows[oldest[0]] {
					d.Settler.Settle(folded)
				}
				open -= len(windows[oldest[0]])
				delete(windows, oldest[0])
				oldest = oldest[1:]
			}
			return nil
		}, preloaded)
	})
}

func BenchmarkPublisher(b *testing.B) {
	s := newSite(b, rabbittest.Shared(b))
	messages := s.Messages(preloaded)
	p := s.Publisher(rabbit.Timing{})
	for b.Loop() {
		for _, err := range p.Publish(sitetest.Within(b, time.Minute), messages) {
			must.OK(b, err)
		}
	}
	b.ReportMetric(float64(b.N)*preloaded/b.Elapsed().Seconds(), "events/s")
}
