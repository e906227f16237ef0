package consume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// byNumber gives each event the verdict of its number at its first attempt, and folds what
// comes again.
type byNumber struct {
	mu   sync.Mutex
	seen map[string]bool
}

// verdicts are given in turn: of eight events one is given up at once, one is retried, one
// parked, one retried until it is given up.
var verdicts = []engine.Verdict{
	{Outcome: engine.Folded},
	{Outcome: engine.Duplicate},
	{Outcome: engine.ProductMissing},
	{Outcome: engine.UserErased},
	{Outcome: engine.Dead, Reason: "product_unusable", Err: errors.New("no vector")},
	{Outcome: engine.Retry, Err: errors.New("503")},
	{Outcome: engine.Park, Err: engine.ErrAway},
	{Outcome: engine.Retry, Err: errors.New("always")},
}

func (b *byNumber) deliver(_ context.Context, deliveries []profile.Delivery) error {
	for _, d := range deliveries {
		go func() {
			number, _ := strconv.Atoi(strings.TrimPrefix(d.Event.MessageID, "m"))
			v := verdicts[number%len(verdicts)]
			b.mu.Lock()
			again := b.seen[d.Event.MessageID]
			b.seen[d.Event.MessageID] = true
			b.mu.Unlock()
			if again && number%len(verdicts) < 7 {
				v = folded
			}
			d.Settler.Settle(v)
		}()
	}
	return nil
}

var sample = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{[a-z_]+="([a-z_]+)"\})? (\d+)$`)

// scrape returns the figures of a page, by name and label.
func scrape(set *metric.Set) map[string]int64 {
	var page strings.Builder
	set.WritePrometheus(&page)
	figures := map[string]int64{}
	for _, s := range sample.FindAllStringSubmatch(page.String(), -1) {
		n, _ := strconv.ParseInt(s[3], 10, 64)
		figures[strings.TrimSuffix(s[1]+" "+s[2], " ")] = n
	}
	return figures
}

// unbalanced returns what is wrong with the sum of a page.
func unbalanced(figures map[string]int64) error {
	sum := figures["keyfold_rabbitmq_returned_total"] + figures["keyfold_rabbitmq_in_hand"]
	for _, outcome := range settledAs {
		sum += figures["keyfold_events_total "+outcome]
	}
	if got := figures["keyfold_rabbitmq_delivered_total"]; got != sum {
		return fmt.Errorf("%d received, %d settled, returned or in hand: %v", got, sum, figures)
	}
	return nil
}

// scrapeOn scrapes from two goroutines until the returned function is called, which
// returns how many pages there were.
func scrapeOn(t *testing.T, set *metric.Set) (stop func() int) {
	over := make(chan struct{})
	pages := make(chan int, 2)
	for range 2 {
		go func() {
			n := 0
			for ; !rabbit.IsClosed(over); n++ {
				if err := unbalanced(scrape(set)); err != nil {
					t.Error(err)
					break
				}
			}
			pages <- n
		}()
	}
	return func() int {
		close(over)
		return <-pages + <-pages
	}
}

// The books balance on every page while events are settled in every way, and without a
// loss they agree with what was published: dead letters and retries count events.
func TestBooksBalance(t *testing.T) {
	const each = 200
	w := newWaiting(t, sitetest.Broker(t), 20*time.Millisecond)
	w.Publish(w.Messages(each * len(verdicts))...)
	w.Publish(rabbit.Message{Exchange: w.Names.Exchange, RoutingKey: "user.embedding.view", ID: "bad", Body: []byte("{")})
	b := &byNumber{seen: map[string]bool{}}
	c := w.config()
	c.MaxRetries, c.Prefetch = 2, 100
	d := w.retries(w.DSN, sitetest.Quiet)
	r := w.runWith(d, c, b.deliver)
	var set metric.Set
	r.Register(&set)
	stop := scrapeOn(t, &set)
	want := map[string]int64{
		"folded": 3 * each, "duplicate": each, "product_missing": each, "user_erased": each,
		"dead": 2*each + 1, "retried": 3 * each, "parked": each, "decided": 0,
	}
	received := int64(0)
	for _, n := range want {
		received += n
	}
	sitetest.Eventually(t, "all is settled", func() bool {
		now := r.Accounting.Read()
		return now.Received == received && now.InHand == 0
	})
	if stop() < 10 {
		t.Error("too few pages")
	}
	figures, got := scrape(&set), map[string]int64{}
	for outcome := range want {
		got[outcome] = figures["keyfold_events_total "+outcome]
	}
	if !maps.Equal(got, want) {
		t.Errorf("settled %v, want %v", got, want)
	}
	for name, n := range map[string]int64{
		"messages_failed_total product_unusable": each, "messages_failed_total retries_exhausted": each, "messages_failed_total malformed_json": 1,
		"messages_processed_total": 6 * each, "keyfold_dead_letters_total": 2*each + 1,
		"keyfold_retried_events_total": 2 * each, "keyfold_retries_total": 3 * each, "keyfold_rabbitmq_returned_total": 0,
	} {
		if figures[name] != n {
			t.Errorf("%s is %d, want %d", name, figures[name], n)
		}
	}
}

// They balance as well where connections are lost amid the work, and nothing is in hand
// when all is closed.
func TestBooksBalanceWithoutConnections(t *testing.T) {
	w := newWaiting(t, sitetest.Broker(t), 20*time.Millisecond)
	w.Publish(w.Messages(3000)...)
	b := &byNumber{seen: map[string]bool{}}
	c := w.config()
	c.Prefetch = 60
	d := w.retries(w.DSN, sitetest.Quiet)
	r := w.runWith(d, c, b.deliver)
	var set metric.Set
	r.Register(&set)
	stop := scrapeOn(t, &set)
	for i := range int64(3) {
		sitetest.Eventually(t, "consuming", func() bool { return r.Stats.Connects.Load() > i && r.Ready() == nil && r.Stats.Unacked.Load() > 0 })
		w.Broker.CloseConnections(t, w.VHost, "keyfold test consumer")
	}
	sitetest.Eventually(t, "returned", func() bool { return r.Accounting.Read().Returned > 0 })
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
	if stop() < 10 {
		t.Error("too few pages")
	}
	now := r.Accounting.Read()
	if now.InHand != 0 || now.Sum() != now.Received || now.Received != r.Stats.Delivered.Load() {
		t.Errorf("at the end %+v of %d", now, r.Stats.Delivered.Load())
	}
}
