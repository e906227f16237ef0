package consume

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// DeadLetterQueue makes a worker's dead letters. An external test file sets it:
// package deadletter imports this one, so that tests in this package cannot.
var DeadLetterQueue func(p *rabbit.Publisher, names rabbit.Names, host string) DeadLetters

func TestMain(m *testing.M) { process.Main(m) }

// unsubscribed waits until the worker's queue has no consumer: a pause has come
// into force, also for retries that come due.
func (s *site) unsubscribed() {
	s.T.Helper()
	ch := s.Channel()
	sitetest.Eventually(s.T, "no consumer at the broker", func() bool {
		q, err := ch.QueueDeclarePassive(s.Names.Queue, true, false, false, false, nil)
		must.OK(s.T, err)
		return q.Consumers == 0
	})
}

// runner is a consumer at work.
type runner struct {
	*Consumer
	t    testing.TB
	stop context.CancelFunc
	done chan error
	once sync.Once
}

func (s *site) config() Config {
	return Config{
		DSN: s.DSN, Names: s.Names, Identity: rabbit.ThisProcess("test"),
		Prefetch: 1000, MaxRetries: 5, RetryDelay: 20 * time.Millisecond, Timing: sitetest.Quick,
	}
}

func (s *site) run(config Config, deliver profile.Deliver) *runner {
	s.T.Helper()
	return s.runWith(InProcess{}, config, deliver)
}

func (s *site) runWith(retries Retries, config Config, deliver profile.Deliver) *runner {
	s.T.Helper()
	return s.runLogged(sitetest.Quiet, retries, config, deliver)
}

func (s *site) runLogged(log *slog.Logger, retries Retries, config Config, deliver profile.Deliver) *runner {
	s.T.Helper()
	c, err := New(config, Ports{
		DeadLetters: DeadLetterQueue(s.Publisher(sitetest.Quick), s.Names, "test-host"),
		Retries:     retries,
		Log:         log,
	})
	must.OK(s.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &runner{Consumer: c, t: s.T, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- c.Run(ctx, Events(deliver)) }()
	s.T.Cleanup(func() { r.end(10 * time.Second) })
	return r
}

// end stops the consumer and closes it.
func (r *runner) end(limit time.Duration) (err error) {
	r.once.Do(func() {
		r.stop()
		if err := <-r.done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		err = r.Close(ctx)
	})
	return err
}

// inbox keeps what was delivered.
type inbox struct {
	mu  sync.Mutex
	all []profile.Delivery
}

func (i *inbox) deliver(_ context.Context, deliveries []profile.Delivery) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, deliveries...)
	return nil
}

func (i *inbox) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.all)
}

// take empties the inbox.
func (i *inbox) take() []profile.Delivery {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.all
	i.all = nil
	return all
}

func ids(deliveries []profile.Delivery) map[string]int {
	all := map[string]int{}
	for _, d := range deliveries {
		all[d.Event.MessageID]++
	}
	return all
}

var folded = engine.Verdict{Outcome: engine.Folded}

func settleAtOnce(_ context.Context, deliveries []profile.Delivery) error {
	for _, d := range deliveries {
		d.Settler.Settle(folded)
	}
	return nil
}

// site is a virtual host with keyfold's topology.
type site struct{ *sitetest.Site }

func newSite(t testing.TB, b *rabbittest.Broker) *site {
	t.Helper()
	s := &site{sitetest.New(t, b)}
	s.setup()
	return s
}

func shared(t testing.TB) *site { return newSite(t, sitetest.Broker(t)) }

func (s *site) setup() {
	s.T.Helper()
	must.OK(s.T, topology.Setup(s.T.Context(), s.DSN, topology.Config{Names: s.Names, QueueType: topology.Classic}))
}

// partition sets the site up with n partitions.
func (s *site) partition(n int, delays ...time.Duration) topology.Config {
	s.T.Helper()
	config := topology.Config{Names: s.Names, Partitions: n, RetryDelays: delays}
	if err := topology.Setup(s.T.Context(), s.DSN, config); err != nil {
		s.T.Fatalf("%d partitions: %v", n, err)
	}
	return config
}
