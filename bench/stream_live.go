package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/internal/report"
	"keyfold/service/profile/worker"
	"keyfold/source/stream"
)

// living is a worker beside a publisher that keeps to a rate.
type living struct {
	*streaming
	pause    time.Duration // between two events
	users    int
	products []int32
	sent     int64
	lag      float64   // seconds, the longest that was seen
	copied   float64   // events into delay queues
	heaps    []float64 // MiB, every second
}

// live publishes at a rate for so long while a worker with its store in memory reads, and
// reports how old events are when their profiles are written.
func (c *streamCmd) live(ctx context.Context, s *streaming, r *report.Report) error {
	l := &living{streaming: s, pause: c.Live.pause, users: c.Users}
	for id := range s.products {
		l.products = append(l.products, id)
	}
	s.number++
	config := s.worker()
	w := worker.New(config, s.ports(config, ""))
	set := &metric.Set{}
	w.Register(set)
	costs, err := s.begin()
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- w.Run(working) }()
	watching, watched := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { l.watch(watching, set) })
	err = l.publishFor(ctx, c.For)
	watched()
	watch.Wait()
	stats := w.Stats()
	if err != nil || stats == nil {
		return errors.Join(err, errNotStarted)
	}
	add := r.Of("live at " + c.Live.text)
	folded := stats.Processor.EventTime.Count()
	err = costs.end(add, int(l.sent))
	add("published", "events", float64(l.sent))
	add("written during that", "events", float64(folded))
	add("event to profile, p50 at most", "s", stats.Processor.EventTime.Quantile(0.5).Seconds())
	add("event to profile, p99 at most", "s", stats.Processor.EventTime.Quantile(0.99).Seconds())
	add("longest lag", "s", l.lag)
	if l.away {
		add("copied into delay queues, each time", "events", l.copied)
	}
	if writes := stats.Processor.Writes.Load(); writes > 0 {
		add("events of a write", "", float64(folded)/float64(writes))
	}
	half := len(l.heaps) / 2
	if half > 0 {
		add("heap, first half, highest", "MiB", slices.Max(l.heaps[:half]))
		add("heap, second half, highest", "MiB", slices.Max(l.heaps[half:]))
	}
	stop()
	return errors.Join(err, <-done)
}

// noAPI is an embedding API that is away, as its breaker says at once.
type noAPI struct{}

var errNoAPI = &engine.Error{Kind: engine.Transient, Reason: "embedder_away", Err: fmt.Errorf("embedder: %w", engine.ErrAway)}

// Resolve implements [engine.Vectors].
func (noAPI) Resolve(_ context.Context, phrases []string) []engine.Resolved {
	return slices.Repeat([]engine.Resolved{{Err: errNoAPI}}, len(phrases))
}

var errNotStarted = errors.New("the worker has not started")

// watch notes the lag and the memory in use every second.
func (l *living) watch(ctx context.Context, set *metric.Set) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		l.heaps = append(l.heaps, float64(m.HeapInuse)/(1<<20))
		var page bytes.Buffer
		set.WritePrometheus(&page)
		figures, err := metric.Parse(&page)
		if err != nil {
			return
		}
		l.copied = figures["keyfold_parked_total"] + figures["keyfold_retries_total"]
		l.lag = max(l.lag, figures["keyfold_stream_lag_seconds"])
	}
}

// ticks is how often a second the events are published that are due.
const ticks = 50

// publishFor publishes what is due until the time is over.
func (l *living) publishFor(ctx context.Context, span time.Duration) error {
	conn, err := l.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	publishers := make([]*stream.Publisher, len(l.names))
	for i, name := range l.names {
		publishers[i], err = conn.DeclarePublisher(ctx, stream.Publishing{Stream: name, Handle: func(o stream.Outcome) {
			if o.Err != nil {
				cancel(o.Err)
			}
		}})
		if err != nil {
			return err
		}
	}
	began := time.Now()
	tick := time.NewTicker(time.Second / ticks)
	defer tick.Stop()
	due := make([][]stream.Numbered, len(l.names))
	for time.Since(began) < span {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for i := range due {
			due[i] = due[i][:0]
		}
		for l.sent < int64(time.Since(began)/l.pause) {
			user, message, err := l.event()
			if err != nil {
				return err
			}
			at := engine.SlotOf(user) % len(l.names)
			due[at] = append(due[at], stream.Numbered{ID: uint64(l.sent), Message: message})
			l.sent++
		}
		for i, p := range publishers {
			if err := p.PublishSubEntries(due[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// event makes an event of now.
func (l *living) event() (user int32, message []byte, err error) {
	user = int32(1 + rand.IntN(l.users))
	of := fmt.Sprintf(`"event_type":"product_view","search_phrase":null,"product_id":%d`, l.products[rand.IntN(len(l.products))])
	if rand.Float64() < l.searches {
		of = fmt.Sprintf(`"event_type":"search","search_phrase":"phrase %d","product_id":null`, l.sent)
	}
	body := fmt.Appendf(nil, `{"user_id":%d,%s,"occurred_at":"%s","metadata":{},"message_id":"live %d %d","version":"1.0"}`,
		user, of, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), l.number, l.sent)
	message, err = stream.AppendMessage(nil, body, nil)
	return user, message, err
}
