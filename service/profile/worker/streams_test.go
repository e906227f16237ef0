package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/settings"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/service/profile/worker"
	"keyfold/shard"
	"keyfold/sink/memory"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

const (
	dimensions = 4
	users      = 20
)

// inMemory is a store without a server, whose products are there for every id.
type inMemory struct{ *memory.Profiles }

func (inMemory) Probe(context.Context) error { return nil }
func (inMemory) Close() error                { return nil }

func (inMemory) Products(_ context.Context, ids []int32) ([]profile.Product, error) {
	all := make([]profile.Product, len(ids))
	for i, id := range ids {
		all[i] = profile.Product{ID: id, Vector: []float32{1, float32(id % 7), float32(id % 3), 2}}
	}
	return all, nil
}

// phrases answer all but those that are said to fail.
type phrases struct{ failing *atomic.Bool }

func (p phrases) Resolve(_ context.Context, texts []string) []engine.Resolved {
	all := make([]engine.Resolved, len(texts))
	for i := range all {
		if p.failing.Load() {
			all[i].Err = errors.New("the embedding API failed")
		} else {
			all[i].Vector = []float64{0.5, 0.5, 0.5, 0.5}
		}
	}
	return all
}

// streamSite is a virtual host with streams, and a store.
type streamSite struct {
	*sitetest.Site
	store     inMemory
	failing   atomic.Bool // the phrases
	publisher *rabbit.Publisher
	sent      [users]int64 // events by user
	number    int
}

const retryDelay = 50 * time.Millisecond

func newStreamSite(t *testing.T, streams int) *streamSite {
	t.Helper()
	t.Parallel()
	s := &streamSite{Site: sitetest.New(t, rabbittest.Shared(t)), store: inMemory{memory.New(dimensions)}}
	s.setUp(streams)
	s.publisher = rabbit.NewPublisher(s.DSN, rabbit.ThisProcess("test"), "events", sitetest.Quick, sitetest.Quiet)
	t.Cleanup(func() { _ = s.publisher.Close(context.Background()) })
	return s
}

func (s *streamSite) setUp(streams int) {
	s.T.Helper()
	err := topology.Setup(s.T.Context(), s.DSN, topology.Config{
		Names: s.Names, QueueType: topology.Classic, Streams: streams, RetryDelays: rabbit.RetryDelays(retryDelay, 2),
	})
	if err != nil {
		s.T.Fatal(err)
	}
}

// publish sends events of random users, by slot or to the exchange of events.
func (s *streamSite) publish(n int, bySlot bool, kind profile.EventType) {
	s.T.Helper()
	messages := make([]rabbit.Message, n)
	for i := range messages {
		user := rand.IntN(users)
		s.sent[user]++
		s.number++
		what := fmt.Sprintf(`"product_id":%d`, 1+rand.IntN(50))
		if kind.HasPhrase() {
			what = fmt.Sprintf(`"search_phrase":"phrase %d"`, rand.IntN(5))
		}
		body := fmt.Appendf(nil, `{"user_id":%d,"event_type":"%s",%s,"occurred_at":"2026-02-10T14:30:%02d+00:00","message_id":"event %d"}`,
			user+1, kind, what, s.number%60, s.number)
		e, err := profile.ParseEvent(body, time.Now())
		if err != nil {
			s.T.Fatal(err)
		}
		if messages[i] = s.Names.EventMessage(body, &e); bySlot {
			messages[i] = s.Names.StreamMessage(body, &e)
		}
	}
	s.send(messages)
}

func (s *streamSite) send(messages []rabbit.Message) {
	s.T.Helper()
	for _, err := range s.publisher.Publish(s.T.Context(), messages) {
		if err != nil {
			s.T.Fatal(err)
		}
	}
}

// running is a worker at work.
type running struct {
	*worker.Worker
	stop context.CancelFunc
	done chan error
}

func (s *streamSite) work() *running {
	s.T.Helper()
	return s.workOn(s.Names, "profiles", s.store, &s.failing)
}

// workOn starts a worker that writes to a store of this name.
func (s *streamSite) workOn(names rabbit.Names, name string, store worker.Store, failing *atomic.Bool) *running {
	s.T.Helper()
	c := worker.Config{
		Config: settings.Config{
			Processor: processor.DefaultConfig(), Shard: shard.DefaultConfig(), Breaker: breaker.DefaultConfig(),
			Retry: settings.Retry{Attempts: 2, Delay: retryDelay}, Timeout: 30 * time.Second,
		},
		DSN: s.DSN, Names: names, Identity: rabbit.ThisProcess("worker"), QueueType: topology.Classic,
		Streams: &worker.Streams{URI: rabbittest.StreamURI(s.Broker.StreamAddress(), s.VHost), Store: name},
	}
	c.Processor.Dimensions, c.Processor.Model = dimensions, "model"
	c.Shard.Window, c.Shard.MaxDelay = 30*time.Millisecond, 100*time.Millisecond
	timing := sitetest.Quick
	timing.Poll = 50 * time.Millisecond
	w := worker.New(c, worker.Ports{
		OpenStore: func(context.Context) (worker.Store, error) { return store, nil },
		Phrases:   phrases{failing}, Log: slog.New(slog.NewTextHandler(s.T.Output(), nil)),
		Broker: func(string) rabbit.Timing { return timing },
	})
	ctx, stop := context.WithCancel(context.Background())
	r := &running{Worker: w, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- w.Run(ctx) }()
	s.T.Cleanup(func() { r.end(s.T) })
	return r
}

// end stops the worker and waits for its end.
func (r *running) end(t testing.TB) {
	t.Helper()
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop = nil
	if err := <-r.done; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

// profiles returns the stored profiles, by user.
func (s *streamSite) profiles() []*profile.Profile { return s.profilesOf(s.store) }

func (s *streamSite) profilesOf(store inMemory) []*profile.Profile {
	ids := make([]int32, users)
	for i := range ids {
		ids[i] = int32(i + 1)
	}
	all, err := store.Load(context.Background(), ids)
	if err != nil {
		s.T.Fatal(err)
	}
	return all
}

// folded waits until every event that was sent is in its profile, and none twice.
func (s *streamSite) folded() []*profile.Profile {
	s.T.Helper()
	var all []*profile.Profile
	sitetest.Eventually(s.T, "all events folded", func() bool {
		all = s.profiles()
		for i, p := range all {
			switch n := s.sent[i]; {
			case p == nil && n > 0, p != nil && p.EventCount < n:
				return false
			case p != nil && p.EventCount > n:
				s.T.Fatalf("user %d has %d events folded, %d were sent", i+1, p.EventCount, n)
			}
		}
		return true
	})
	return all
}

// Workers share the streams, take events by both doors, and hand streams over to workers that
// come, and to those that stay.
//
// Promise(streams/shared): Workers share the streams: each is read by one of them, and goes to another when a worker comes or goes.
func TestWorkersShareStreams(t *testing.T) {
	s := newStreamSite(t, 4)
	first := s.work()
	owned := func(workers ...*running) func() bool {
		return func() bool {
			for _, w := range workers {
				if stats := w.Stats(); stats == nil || stats.Streams == nil || stats.Streams.Owned.Load() != int64(4/len(workers)) {
					return false
				}
			}
			return true
		}
	}
	sitetest.Eventually(t, "one worker reads all", owned(first))
	s.publish(200, true, profile.ProductView)
	s.publish(50, false, profile.ProductView)
	second := s.work()
	s.publish(200, true, profile.ProductView)
	sitetest.Eventually(t, "two workers read two each", owned(first, second))
	s.publish(200, true, profile.ProductView)
	first.end(t)
	s.publish(200, true, profile.ProductView)
	sitetest.Eventually(t, "the other reads all", owned(second))
	s.folded()
	second.end(t)
}

// What is read again from the first offset on changes no profile.
//
// Promise(streams/rewind): A stream that is read again from its first offset changes no profile.
func TestRewindChangesNothing(t *testing.T) {
	s := newStreamSite(t, 2)
	w := s.work()
	s.publish(2000, true, profile.ProductView)
	before := s.folded()
	rewind := func() {
		for i := range 2 {
			if err := s.store.Rewind(t.Context(), s.Names.StreamQueue(rabbit.Stream{Generation: 1, Partition: i}), profile.Position{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	replayed := func(w *running) {
		t.Helper()
		sitetest.Eventually(t, "all read again", func() bool {
			stats := w.Stats()
			return stats != nil && stats.Processor.Replayed.Load() >= 2000
		})
	}
	rewind() // below a worker that reads
	replayed(w)
	w.end(t)
	rewind()
	again := s.work()
	replayed(again)
	again.end(t)
	for i, p := range s.profiles() {
		if p != before[i] {
			t.Errorf("user %d was written: version %d of %d events, before %d of %d", i+1, p.Version, p.EventCount, before[i].Version, before[i].EventCount)
		}
	}
}

// Another database's worker reads the streams from their first offset on, beside the live one,
// while its phrases fail: both have the same profiles in the end, and neither has what is the other's.
//
// Promise(streams/rebuild): Workers of another database make all profiles anew from the log, beside
// the live ones, which lose nothing.
func TestRebuildFromTheLog(t *testing.T) {
	s := newStreamSite(t, 2)
	live := s.work()
	s.publish(400, true, profile.ProductView)
	s.publish(50, true, profile.Search)
	s.folded()
	names, anew := s.Names.Rebuild("anew"), inMemory{memory.New(dimensions)}
	err := topology.Setup(t.Context(), s.DSN, topology.Config{Names: names.WithoutSlots(), QueueType: topology.Classic, RetryDelays: rabbit.RetryDelays(retryDelay, 2)})
	if err != nil {
		t.Fatal(err)
	}
	var failing atomic.Bool
	failing.Store(true)
	rebuild := s.workOn(names, "anew", anew, &failing)
	sitetest.Eventually(t, "searches of the rebuild are retried", func() bool {
		stats := rebuild.Stats()
		return stats != nil && stats.Retries != nil && stats.Retries.Replaced.Load() >= 50
	})
	s.publish(100, true, profile.ProductView)
	failing.Store(false)
	same := func() bool {
		for i, p := range s.profilesOf(anew) {
			if n := s.sent[i]; p == nil && n > 0 || p != nil && p.EventCount != n {
				return false
			}
		}
		return true
	}
	sitetest.Eventually(t, "the rebuild has all events once", same)
	want := s.folded()
	for i, p := range s.profilesOf(anew) {
		if p == nil {
			continue
		}
		for k := range p.Vector {
			if d := p.Vector[k] - want[i].Vector[k]; d > 1e-9 || d < -1e-9 {
				t.Fatalf("user %d: the vectors differ by %g", p.UserID, d)
			}
		}
	}
	s.publish(50, false, profile.ProductView) // by the queue: the live worker's
	s.folded()
	rebuild.end(t)
	live.end(t)
}

// A worker that begins where another one stopped reads nothing again.
func TestPositionIsKept(t *testing.T) {
	s := newStreamSite(t, 1)
	w := s.work()
	s.publish(300, true, profile.ProductView)
	s.folded()
	w.end(t)
	s.publish(100, true, profile.ProductView)
	next := s.work()
	s.folded()
	if n := next.Stats().Processor.Replayed.Load(); n > 0 {
		t.Errorf("%d events were read again", n)
	}
	next.end(t)
}

// Searches whose phrases fail go through a delay queue, and come back once.
//
// Promise(streams/retries): An event of a stream that has to be tried again waits as a copy in a delay queue, and is folded once.
func TestSearchesOfAStreamAreRetried(t *testing.T) {
	s := newStreamSite(t, 1)
	s.failing.Store(true)
	w := s.work()
	s.publish(30, true, profile.Search)
	s.publish(100, true, profile.ProductView)
	sitetest.Eventually(t, "searches are retried", func() bool {
		stats := w.Stats()
		return stats != nil && stats.Retries.Replaced.Load() >= 30
	})
	s.failing.Store(false)
	all := s.folded()
	w.end(t)
	for _, p := range all {
		if p != nil && len(p.Marks) > 0 && len(p.Marks[0].Holes) > 0 {
			t.Errorf("user %d has holes left: %+v", p.UserID, p.Marks)
		}
	}
}

// What is no event becomes one dead letter, and holds nothing up.
func TestMalformedEventOfAStream(t *testing.T) {
	s := newStreamSite(t, 1)
	w := s.work()
	s.publish(10, true, profile.ProductView)
	s.send([]rabbit.Message{{Exchange: s.Names.StreamExchange(), RoutingKey: s.Names.SlotKey(3), Body: []byte(`{"user_id":"?"}`)}})
	s.publish(10, true, profile.ProductView)
	s.folded()
	sitetest.Eventually(t, "one dead letter", func() bool { return w.Stats().Consumer.DeadLetters.Load() == 1 })
	w.end(t)
	next := s.work()
	s.publish(10, true, profile.ProductView)
	s.folded()
	if n := next.Stats().Consumer.DeadLetters.Load(); n != 0 {
		t.Errorf("%d dead letters more", n)
	}
	next.end(t)
}

// A stream that was deleted and made anew is not read by the position of the one before it.
//
// Promise(streams/identity): A stream that was made anew under its name is named, and nothing of it is taken for read.
func TestStreamMadeAnewIsNotRead(t *testing.T) {
	for _, refilled := range []bool{false, true} {
		t.Run(fmt.Sprintf("refilled %v", refilled), func(t *testing.T) {
			s := newStreamSite(t, 1)
			w := s.work()
			s.publish(200, true, profile.ProductView)
			s.folded()
			w.end(t)
			queue := s.Names.StreamQueue(rabbit.Stream{Generation: 1})
			if _, err := s.Channel().QueueDelete(queue, false, false, false); err != nil {
				t.Fatal(err)
			}
			s.setUp(1)
			if refilled {
				sent := slices.Clone(s.sent[:])
				s.publish(300, true, profile.ProductView)
				copy(s.sent[:], sent)
			}
			next := s.work()
			sitetest.Eventually(t, "the fault is told", func() bool {
				err := next.Ready()
				return err != nil && engine.ReasonOf(err) == "stream_changed"
			})
			next.end(t)
			s.folded()
		})
	}
}

// A broker's connection that is lost costs a second reading of little.
func TestStreamConnectionLost(t *testing.T) {
	s := newStreamSite(t, 2)
	w := s.work()
	for range 5 {
		s.publish(200, true, profile.ProductView)
		s.Broker.Control(t, "close_all_connections", "--vhost", s.VHost, "test")
	}
	s.folded()
	w.end(t)
}

// Another number of streams is another generation, and what waits in the one before is read too.
//
// Promise(streams/generations): Another number of streams makes new ones, and what waits in those before is read too.
func TestAnotherNumberOfStreams(t *testing.T) {
	s := newStreamSite(t, 1)
	s.publish(200, true, profile.ProductView)
	s.setUp(2)
	s.setUp(2) // as often as it is called
	s.publish(200, true, profile.ProductView)
	for name, want := range map[rabbit.Stream]bool{{Generation: 2, Partition: 1}: true, {Generation: 3}: false} {
		if _, err := s.Channel().QueueDeclarePassive(s.Names.StreamQueue(name), true, false, false, false, nil); (err == nil) != want {
			t.Errorf("%s: %v", s.Names.StreamQueue(name), err)
		}
	}
	w := s.work()
	for _, p := range s.folded() {
		if p != nil && len(p.Marks) == 0 {
			t.Errorf("user %d has no mark", p.UserID)
		}
	}
	if n := w.Stats().Streams.Owned.Load(); n != 3 {
		t.Errorf("%d streams are read", n)
	}
	w.end(t)
}
