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
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/service/profile/worker"
	"keyfold/shard"
	"keyfold/sink/memory"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
	"keyfold/source/stream"
	"keyfold/source/stream/reader"
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
	attempts  int // after an event's first one
}

const retryDelay = 50 * time.Millisecond

func newStreamSite(t *testing.T, streams int) *streamSite {
	t.Helper()
	t.Parallel()
	s := &streamSite{Site: sitetest.New(t, rabbittest.Shared(t)), store: inMemory{memory.New(dimensions)}, attempts: 2}
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
	must.OK(s.T, err)
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
		must.OK(s.T, err)
		if messages[i] = s.Names.EventMessage(body, &e); bySlot {
			messages[i] = s.Names.StreamMessage(body, &e)
		}
	}
	s.send(messages)
}

func (s *streamSite) send(messages []rabbit.Message) {
	s.T.Helper()
	for _, err := range s.publisher.Publish(s.T.Context(), messages) {
		must.OK(s.T, err)
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
			Retry: settings.Retry{Attempts: s.attempts, Delay: retryDelay}, Timeout: 30 * time.Second,
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
	must.OK(s.T, err)
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
			name := s.Names.StreamQueue(rabbit.Stream{Generation: 1, Partition: i})
			seen, err := s.store.LoadPosition(t.Context(), name)
			if err == nil {
				err = s.store.Rewind(t.Context(), name, seen, profile.Position{})
			}
			must.OK(t, err)
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
	s.attempts = 12 // more than there is time for until the phrases are had
	err := topology.Setup(t.Context(), s.DSN, topology.Config{Names: names.WithoutSlots(), QueueType: topology.Classic, RetryDelays: rabbit.RetryDelays(retryDelay, s.attempts)})
	must.OK(t, err)
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

// A stream that was deleted and made anew is not read by the position of the one before it,
// until it is accepted: then all of it is folded, at whatever offsets it stands.
//
// Promise(streams/identity): A stream that was made anew under its name is named, and nothing of it is taken for read.
// Promise(streams/accept): A changed stream is read as a new one once an operator accepts it: marks of the earlier one swallow nothing of it.
func TestStreamMadeAnewIsNotRead(t *testing.T) {
	for _, refilled := range []bool{false, true} {
		t.Run(fmt.Sprintf("refilled %v", refilled), func(t *testing.T) {
			s := newStreamSite(t, 1)
			w := s.work()
			s.publish(200, true, profile.ProductView)
			s.folded()
			w.end(t)
			if c := s.changed(); c != nil {
				t.Fatalf("a stream that is the same has changed: %+v", c)
			}
			for epoch := range uint16(2) { // as often as it happens
				if _, err := s.Channel().QueueDelete(s.stream(), false, false, false); err != nil {
					t.Fatal(err)
				}
				s.setUp(1)
				before := slices.Clone(s.sent[:])
				if refilled {
					s.publish(100, true, profile.ProductView)
				}
				after := slices.Clone(s.sent[:])
				copy(s.sent[:], before)
				next := s.work()
				sitetest.Eventually(t, "the fault is told", refuses(next))
				s.folded()
				copy(s.sent[:], after)
				if c := s.accept(); c.To.Offset != 0 || c.To.Epoch.Number != epoch+1 {
					t.Fatalf("accepted as %+v", c)
				}
				if c := s.changed(); c != nil {
					t.Fatalf("a stream that was accepted has changed: %+v", c)
				}
				s.publish(50, true, profile.ProductView)
				s.folded()
				next.end(t)
			}
		})
	}
}

// A stream that lost its end is read from where it lost it: what lies below was read.
func TestStreamThatLostItsEnd(t *testing.T) {
	s := newStreamSite(t, 1)
	w := s.work()
	s.publish(200, true, profile.ProductView)
	s.folded()
	w.end(t)
	s.mark(1000, 0)
	seen := s.position()
	lost := profile.Position{Offset: 250, Chunk: profile.Fingerprint{First: 240, Timestamp: engine.Now(), CRC: 1}}
	must.OK(t, s.store.Rewind(t.Context(), s.stream(), seen, lost))
	time.Sleep(5 * time.Millisecond) // chunks of one millisecond cannot be told by time
	sent := slices.Clone(s.sent[:])
	s.publish(100, true, profile.ProductView)
	after := slices.Clone(s.sent[:])
	copy(s.sent[:], sent)
	next := s.work()
	sitetest.Eventually(t, "the fault is told", refuses(next))
	s.folded()
	copy(s.sent[:], after)
	if c := s.accept(); c.To.Offset != 200 || c.To.Epoch != (profile.Epoch{Number: 1, From: 200}) {
		t.Fatalf("accepted as %+v", c)
	}
	s.folded()
	if n := next.Stats().Streams.Delivered.Load(); n != 100 {
		t.Errorf("%d events were read", n)
	}
	// What was folded under the marks of the first epoch is not read under those of the second.
	sitetest.Eventually(t, "the position is stored", func() bool { return s.position().Offset == 300 })
	must.OK(t, s.store.Rewind(t.Context(), s.stream(), s.position(), profile.Position{Epoch: profile.Epoch{Number: 1, From: 200}}))
	sitetest.Eventually(t, "it is read again", func() bool { return next.Stats().Processor.Replayed.Load() >= 100 })
	next.end(t)
	if n := next.Stats().Streams.Delivered.Load(); n != 200 {
		t.Errorf("%d events were read after a rewind", n)
	}
	s.folded()
}

// A stream that lost its end above the position is found by the marks of profiles.
func TestStreamThatLostItsEndAboveThePosition(t *testing.T) {
	s := newStreamSite(t, 1)
	w := s.work()
	s.publish(200, true, profile.ProductView)
	s.folded()
	w.end(t)
	s.mark(1000, 6*time.Minute)
	if c := s.changed(); c != nil {
		t.Fatalf("nothing has come, and it has changed: %+v", c)
	}
	s.publish(100, true, profile.ProductView)
	next := s.work()
	sitetest.Eventually(t, "the fault is told", refuses(next))
	if c := s.accept(); c.To.Offset != 200 || c.To.Epoch != (profile.Epoch{Number: 1, From: 200}) {
		t.Fatalf("accepted as %+v", c)
	}
	s.folded()
	next.end(t)
}

// mark raises the marks of all profiles, as those of events that a stream has lost, which were
// written a while ago.
func (s *streamSite) mark(next uint64, ago time.Duration) {
	s.T.Helper()
	for _, p := range s.profiles() {
		if p == nil {
			continue
		}
		changed := *p
		changed.Version++
		changed.WrittenAt -= engine.Millis(ago.Milliseconds())
		changed.Marks = profile.Marks{{Stream: p.Marks[len(p.Marks)-1].Stream, Next: next}}
		must.OK(s.T, s.store.Swap(s.T.Context(), []*profile.Profile{&changed})[0])
	}
}

// refuses reports whether a worker does not read because a stream changed.
func refuses(w *running) func() bool {
	return func() bool {
		err := w.Ready()
		return err != nil && engine.ReasonOf(err) == reader.ReasonChanged
	}
}

// stream is the name of the first stream.
func (s *streamSite) stream() string { return s.Names.StreamQueue(rabbit.Stream{Generation: 1}) }

func (s *streamSite) position() profile.Position {
	s.T.Helper()
	at, err := s.store.LoadPosition(s.T.Context(), s.stream())
	must.OK(s.T, err)
	return at
}

// changed looks at the only stream.
func (s *streamSite) changed() *reader.Change {
	s.T.Helper()
	client := stream.Config{URI: rabbittest.StreamURI(s.Broker.StreamAddress(), s.VHost), Timing: sitetest.Quick}
	states, err := reader.Look(s.T.Context(), client, s.Names)
	must.OK(s.T, err)
	c, err := reader.Changed(s.T.Context(), client, s.Names, states[0], s.position(), s.store.Load)
	must.OK(s.T, err)
	return c
}

// accept begins an epoch of the only stream; a second operator who does the same changes nothing.
func (s *streamSite) accept() *reader.Change {
	s.T.Helper()
	c := s.changed()
	if c == nil {
		s.T.Fatal("the stream has not changed")
	}
	must.OK(s.T, s.store.Rewind(s.T.Context(), s.stream(), c.Seen, c.To))
	if err := s.store.Rewind(s.T.Context(), s.stream(), c.Seen, c.To); !errors.Is(err, engine.ErrConflict) {
		s.T.Fatalf("accepted twice: %v", err)
	}
	return c
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
