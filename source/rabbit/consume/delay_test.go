package consume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

var errAttempt = errors.New("503 from the embedder")

func retryOf(err error) engine.Verdict { return engine.Verdict{Outcome: engine.Retry, Err: err} }

// waiting is a site with delay queues; its consumers retry after delay first.
type waiting struct {
	*site
	first time.Duration
}

func newWaiting(t testing.TB, b *rabbittest.Broker, first time.Duration) *waiting {
	w := &waiting{newSite(t, b), first}
	w.declare()
	return w
}

func (w *waiting) declare() {
	w.T.Helper()
	config := topology.Config{Names: w.Names, QueueType: topology.Classic, RetryDelays: rabbit.RetryDelays(w.first, w.config().MaxRetries)}
	must.OK(w.T, topology.Setup(w.T.Context(), w.DSN, config))
}

func (w *waiting) config() Config {
	c := w.site.config()
	c.RetryDelay, c.MaxRetries = w.first, 3
	return c
}

func (w *waiting) queue(retry int) string {
	return w.Names.RetryQueue(rabbit.RetryDelay(w.first, retry))
}

// retries returns delay queues behind a DSN that outlive the consumer.
func (w *waiting) retries(dsn string, log *slog.Logger) *DelayQueues {
	d := NewDelayQueues(dsn, w.Names, rabbit.ThisProcess("test"), sitetest.Quick, log)
	w.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), sitetest.Ample)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			w.T.Error(err)
		}
	})
	return d
}

// failing counts deliveries of each event and fails the first ones.
type failing struct {
	times int

	mu    sync.Mutex
	count map[string]int
	first map[string]engine.Millis
	wrong []string
}

func failFirst(times int) *failing {
	return &failing{times: times, count: map[string]int{}, first: map[string]engine.Millis{}}
}

func (f *failing) deliver(_ context.Context, deliveries []profile.Delivery) error {
	for _, d := range deliveries {
		if n := f.note(d); n <= f.times {
			d.Settler.Settle(retryOf(fmt.Errorf("failure %d", n)))
		} else {
			d.Settler.Settle(folded)
		}
	}
	return nil
}

func (f *failing) note(d profile.Delivery) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := d.Event.MessageID
	f.count[id]++
	switch n := f.count[id]; {
	case (n > 1) != (d.FirstSeen > 0):
		f.wrong = append(f.wrong, fmt.Sprintf("%s: first seen %d in delivery %d", id, d.FirstSeen, n))
	case n == 2:
		f.first[id] = d.FirstSeen
	case n > 2 && d.FirstSeen != f.first[id]:
		f.wrong = append(f.wrong, id+": another first-seen time")
	}
	return f.count[id]
}

// settled returns how many events came more often than they fail.
func (f *failing) settled() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, count := range f.count {
		if count > f.times {
			n++
		}
	}
	return n
}

// A failed event leaves the worker's queue for the delay queue with all that it
// was, and there is one copy of it.
//
// Promise(event/retry-delays)
func TestRetryWaitsAtTheBroker(t *testing.T) {
	w := newWaiting(t, sitetest.Broker(t), time.Minute)
	m := w.Messages(1)[0]
	m.Priority, m.Properties = 7, rabbit.Properties{ContentType: "application/json", AppID: "shop", Type: "view", CorrelationID: "c1"}
	m.Headers = amqp.Table{"trace": "abc", "x-death": "forged", "CC": []any{w.Names.DeadLetters}, "deep": amqp.Table{"n": int16(3)}}
	w.Publish(m)
	d := w.retries(w.DSN, sitetest.Quiet)
	r := w.runWith(d, w.config(), failFirst(1).deliver)
	sitetest.Eventually(t, "the original acknowledged", func() bool { return r.Stats.Acked.Load() == 1 })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	if n := w.Depth(w.Names.Queue); n != 0 {
		t.Errorf("%d in the worker's queue", n)
	}
	if n := w.Depth(w.Names.DeadLetters); n != 0 {
		t.Error("the copy followed CC")
	}
	back, ok, err := w.Channel().Get(w.queue(0), true)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if !bytes.Equal(back.Body, m.Body) || back.MessageId != m.ID || back.Priority != 7 || back.AppId != "shop" ||
		back.Type != "view" || back.CorrelationId != "c1" || !back.Timestamp.Equal(m.Timestamp) || back.DeliveryMode != amqp.Persistent {
		t.Errorf("copy %+v", back)
	}
	h := back.Headers
	if h["trace"] != "abc" || h["x-death"] != nil || h["CC"] != nil || h[rabbit.HeaderAttempts] != int64(1) ||
		h[rabbit.HeaderExchange] != w.Names.Exchange || h[rabbit.HeaderFirstSeen].(int64) == 0 ||
		!strings.Contains(h[rabbit.HeaderErrors].(string), "failure 1") {
		t.Errorf("headers %v", h)
	}
	if w.Depth(w.queue(0)) != 0 || d.Stats.Replaced.Load() != 1 || d.Stats.Waiting.Load() != 0 {
		t.Error("more than one copy")
	}
}

// Every event fails in all its attempts but the last: each is delivered exactly
// so often, across the delays, and nothing is left.
//
// Promise(event/retried)
func TestRetryStorm(t *testing.T) {
	const n = 1500
	w := newWaiting(t, sitetest.Broker(t), 200*time.Millisecond)
	w.Publish(w.Messages(n)...)
	d := w.retries(w.DSN, sitetest.Quiet)
	f := failFirst(2)
	r := w.runWith(d, w.config(), f.deliver)
	sitetest.Eventually(t, "every event settled", func() bool { return f.settled() == n })
	sitetest.Eventually(t, "every message acknowledged", func() bool { return r.Stats.Acked.Load() == 3*n })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	for id, count := range f.count {
		if count != 3 {
			t.Errorf("%s came %d times", id, count)
		}
	}
	for _, queue := range []string{w.Names.Queue, w.queue(0), w.queue(1), w.Names.DeadLetters} {
		if left := w.Depth(queue); left != 0 {
			t.Errorf("%d left in %s", left, queue)
		}
	}
	if len(f.wrong) > 0 || r.Stats.Redelivered.Load() != 0 || d.Stats.Replaced.Load() != 2*n || d.Stats.InProcess.Load() != 0 {
		t.Errorf("%.3q, %d redelivered, %d replaced, %d in process", f.wrong,
			r.Stats.Redelivered.Load(), d.Stats.Replaced.Load(), d.Stats.InProcess.Load())
	}
}

// Attempts and errors outlive the worker: a second one goes on where the first
// stopped, and the dead letter tells of all of them.
//
// Promise(event/retried)
func TestExhaustedOverRestarts(t *testing.T) {
	w := newWaiting(t, sitetest.Broker(t), 200*time.Millisecond)
	w.Publish(w.Messages(2)...)
	start := time.Now().Truncate(time.Second)
	for attempt := range 4 {
		var in inbox
		d := w.retries(w.DSN, sitetest.Quiet)
		r := w.runWith(d, w.config(), in.deliver)
		sitetest.Eventually(t, "an attempt on both", func() bool { return in.len() == 2 })
		for _, e := range in.take() {
			e.Settler.Settle(retryOf(fmt.Errorf("failure %d", attempt)))
		}
		must.OK(t, r.end(sitetest.Ample))
		if r.Stats.Acked.Load() != 2 {
			t.Fatalf("a stop did not wait for the copies: %d acknowledged", r.Stats.Acked.Load())
		}
	}
	for id, d := range w.letters(2) {
		l := read(t, d)
		if d.Headers[rabbit.HeaderReason] != engine.ReasonRetriesExhausted || l.Info.RetryCount != 3 ||
			strings.Join(l.Info.ErrorMessages, ",") != "failure 0,failure 1,failure 2,failure 3" ||
			l.Info.First.Before(start) || l.Info.Last.Before(l.Info.First) {
			t.Errorf("%s: %v %+v", id, d.Headers, l.Info)
		}
		if d.Headers[rabbit.HeaderFirstExchange] != w.Names.Exchange || d.Headers["x-death"] != nil || d.Headers[rabbit.HeaderErrors] != nil {
			t.Errorf("%s: headers %v", id, d.Headers)
		}
	}
	if w.Depth(w.Names.Queue) != 0 {
		t.Error("something is left")
	}
}
