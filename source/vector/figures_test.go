package vector_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/redistest"

	"keyfold/engine"
	"keyfold/source/vector"
	"keyfold/source/vector/openai"
	"keyfold/source/vector/rediscache"
)

// worker is everything that stands behind the port, joined as a worker joins it.
type worker struct {
	client  *openai.Client
	breaker *vector.Breaker
	redis   *rediscache.Cache
	phrases *vector.Phrases
}

type settings struct {
	api       openai.Config
	breaker   vector.BreakerConfig
	shared    rediscache.Config
	gathering vector.Batching
}

func newWorker(t testing.TB, s *embedtest.Server, r *redistest.Server, change func(*settings)) *worker {
	t.Helper()
	c := settings{openai.DefaultConfig(), vector.DefaultBreakerConfig(), rediscache.DefaultConfig(), vector.DefaultBatching()}
	c.api.BaseURL, c.api.Dimensions, c.shared.Dimensions = s.URL(), 64, 64
	c.shared.Timeout = 10 * time.Second // of a busy machine; tests that freeze Redis set their own
	if change != nil {
		change(&c)
	}
	w := &worker{}
	var err error
	if w.client, err = openai.New(c.api); err != nil {
		t.Fatal(err)
	}
	if w.breaker, err = vector.NewBreaker(c.breaker, w.client); err != nil {
		t.Fatal(err)
	}
	var cache vector.Cache
	if r != nil {
		c.shared.URL = r.URL()
	}
	if c.shared.URL != "" {
		if w.redis, err = rediscache.New(c.shared); err != nil {
			t.Fatal(err)
		}
		cache = w.redis
	}
	if w.phrases, err = vector.NewBatched(vector.DefaultConfig(), c.gathering, w.breaker, cache); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w
}

func (w *worker) close() {
	w.phrases.Close()
	w.client.Close()
	if w.redis != nil {
		_ = w.redis.Close()
	}
}

// searches are n phrases of that many distinct ones, by Zipf's law, each of
// which occurs.
func searches(n, distinct int) []string {
	random := rand.New(rand.NewPCG(3, 4))
	zipf := rand.NewZipf(random, 1.1, 1, uint64(distinct-1))
	all := make([]string, n)
	for i := range all {
		k := zipf.Uint64()
		if i < distinct {
			k = uint64(i)
		}
		all[i] = fmt.Sprint("search phrase ", k)
	}
	random.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// flushes resolves events in flushes of 25, 16 flushes at a time.
func flushes(t *testing.T, w *worker, events []string, each func(phrase string, r engine.Resolved)) {
	t.Helper()
	work := make(chan []string)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for flush := range work {
				for i, r := range w.phrases.Resolve(t.Context(), flush) {
					each(flush[i], r)
				}
			}
		})
	}
	for flush := range slices.Chunk(events, 25) {
		work <- flush
	}
	close(work)
	wg.Wait()
}

// right tells whether a vector is the one its phrase has on every server.
func right(t *testing.T) func(string, engine.Resolved) {
	hash, err := vector.NewHash(64)
	must.OK(t, err)
	return func(phrase string, r engine.Resolved) {
		raw, err := hash.Embed(t.Context(), []string{phrase})
		if err != nil {
			t.Error(err)
			return
		}
		want, _ := engine.Unit(raw[0], 64)
		if r.Err != nil || !slices.Equal(r.Vector, want) {
			t.Errorf("%s: another vector, or %v", phrase, r.Err)
		}
	}
}

func TestTenThousandSearchesTakeFewRequests(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{Faults: embedtest.Faults{Latency: 50 * time.Millisecond}})
	r := redistest.Start(t)
	events := searches(10_000, 500)

	cold := newWorker(t, s, r, nil)
	flushes(t, cold, events, right(t))
	n := s.Counts()
	t.Logf("empty caches: %d phrases in %d requests, at most %d at once", n.Inputs, n.Requests, n.MostAt)
	if n.Inputs != 500 || n.Requests > 60 || n.MostAt > 4 {
		t.Errorf("want 500 phrases in at most 60 requests, 4 at once")
	}
	cold.close() // waits until Redis has all

	r.Restart(t)
	warm := newWorker(t, s, r, nil)
	flushes(t, warm, events, right(t))
	if again := s.Counts(); again.Requests != n.Requests {
		t.Errorf("%d requests with a warm Redis", again.Requests-n.Requests)
	}
	if got := warm.redis.Stats(); got.Hits.Load() != 500 || got.Misses.Load() != 0 || warm.client.Stats().Requests.Load() != 0 {
		t.Errorf("Redis had %d of 500", got.Hits.Load())
	}
}

// Redis dies in the middle of a run, freezes when it is back, and thaws: every
// search is answered rightly throughout.
func TestRedisDiesInTheRun(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{})
	r := redistest.Start(t)
	w := newWorker(t, s, r, func(c *settings) {
		c.shared.Timeout, c.shared.OpenFor = 80*time.Millisecond, 20*time.Millisecond
	})
	check := right(t)
	distinct := 0
	phase := func(name string) {
		var events []string
		for range 1000 {
			distinct++
			events = append(events, fmt.Sprint(name, distinct))
		}
		begun := time.Now()
		flushes(t, w, events, check)
		st := w.redis.Stats()
		t.Logf("%-8s %v; failures %d, bypassed %d, written %d", name, time.Since(begun).Round(time.Millisecond),
			st.Failures.Load(), st.Bypassed.Load(), st.Written.Load())
	}
	found := func() {
		t.Helper()
		for limit := time.Now().Add(time.Minute); w.redis.State().Open; time.Sleep(10 * time.Millisecond) {
			if w.redis.Get(t.Context(), []string{"x"}); time.Now().After(limit) {
				t.Fatal("it is not found again")
			}
		}
	}
	phase("before ")
	r.Kill()
	phase("dead ")
	if st := w.redis.Stats(); st.Failures.Load() == 0 || !w.redis.State().Open {
		t.Errorf("its death went unnoticed: %+v", w.redis.State())
	}
	r.Restart(t)
	found() // a frozen server that was away all the time fails no call
	r.Freeze(t)
	failed, limit := w.redis.Stats().Failures.Load(), time.Now().Add(time.Minute)
	for w.redis.Stats().Failures.Load() == failed && time.Now().Before(limit) {
		phase("frozen ")
	}
	if w.redis.Stats().Failures.Load() == failed {
		t.Error("its freeze went unnoticed")
	}
	r.Thaw(t)
	found()
	phase("after ")
	if n := s.Counts(); n.Inputs != distinct {
		t.Errorf("%d inputs for %d phrases", n.Inputs, distinct)
	}
}

// Everything goes wrong now and then. Each event ends folded or, if its phrase
// is refused or its attempts are used up, as a dead letter; parked ones come
// again without using an attempt.
func TestFaultyAPI(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{Seed: 1, Faults: embedtest.Faults{
		Latency: 2 * time.Millisecond, RetryAfter: 20 * time.Millisecond,
		TooMany: 0.05, ServerError: 0.02, Hang: 0.01, HangUp: 0.02, Truncate: 0.02,
		WrongDimensions: 0.02, WrongCount: 0.02, WrongIndex: 0.02, NotFinite: 0.02, Zero: 0.02,
		Refuse: func(input string) bool { return input == "search phrase 7" },
	}})
	w := newWorker(t, s, nil, func(c *settings) {
		c.api.Timeout, c.breaker.OpenFor = 300*time.Millisecond, 20*time.Millisecond
		c.gathering.Inputs = 16
	})
	var events []string
	for i := range 3000 {
		events = append(events, fmt.Sprint("search phrase ", i))
	}
	check := right(t)
	var folded, dead, retried, parked atomic.Int64
	var mu sync.Mutex
	attempts := map[string]int{}
	for round := 0; len(events) > 0; round++ {
		var again []string
		flushes(t, w, events, func(phrase string, r engine.Resolved) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.Err == nil:
				folded.Add(1)
				check(phrase, r)
			case errors.Is(r.Err, engine.ErrAway):
				parked.Add(1)
				again = append(again, phrase)
			case engine.KindOf(r.Err) == engine.Permanent || attempts[phrase] == 5:
				dead.Add(1)
				if engine.ReasonOf(r.Err) == "error" {
					t.Errorf("%s died without a reason: %v", phrase, r.Err)
				}
				if engine.KindOf(r.Err) == engine.Permanent && phrase != "search phrase 7" {
					t.Errorf("%s was taken for a refused one: %v", phrase, r.Err)
				}
			case engine.KindOf(r.Err) == engine.Configuration:
				t.Errorf("%s: a configuration fault reached an event: %v", phrase, r.Err)
			default:
				retried.Add(1)
				attempts[phrase]++
				again = append(again, phrase)
			}
		})
		events = again
		if round == 200 {
			t.Fatalf("%d events are not settled after %d rounds", len(events), round)
		}
		time.Sleep(10 * time.Millisecond)
	}
	n := s.Counts()
	t.Logf("folded %d, dead %d, retried %d, parked %d; %d requests, %d answered, %d refused, %d faulty",
		folded.Load(), dead.Load(), retried.Load(), parked.Load(), n.Requests, n.Answered, n.Refused, n.Faulty)
	if folded.Load()+dead.Load() != 3000 || dead.Load() == 0 {
		t.Errorf("%d folded and %d dead of 3000", folded.Load(), dead.Load())
	}
	if retried.Load() == 0 {
		t.Error("nothing went wrong")
	}
}

// The API refuses the key: every search is away, none dies, and once the key
// works all are answered.
func TestRefusedKeyParksSearches(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{Faults: embedtest.Faults{Status: 401}})
	w := newWorker(t, s, nil, func(c *settings) {
		c.breaker.OpenFor = 20 * time.Millisecond
	})
	events := searches(500, 100)
	flushes(t, w, events, func(phrase string, r engine.Resolved) {
		if !errors.Is(r.Err, engine.ErrAway) || engine.KindOf(r.Err) != engine.Transient {
			t.Errorf("%s: %v", phrase, r.Err)
		}
	})
	if state := w.breaker.State(); !state.Open || engine.KindOf(state.Cause) != engine.Configuration {
		t.Errorf("state %+v", state)
	}
	s.SetFaults(embedtest.Faults{})
	for limit := time.Now().Add(time.Minute); w.breaker.State().Open; time.Sleep(5 * time.Millisecond) {
		if w.phrases.Resolve(t.Context(), []string{"probe"}); time.Now().After(limit) {
			t.Fatal("it stays open")
		}
	}
	flushes(t, w, events, right(t))
}
