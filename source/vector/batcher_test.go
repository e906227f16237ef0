package vector_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/source/vector"
)

// remote is an embedder that takes its time and records.
type remote struct {
	embedder
	latency time.Duration
	under   int // under mu
	most    int // under mu
}

func (r *remote) Embed(ctx context.Context, phrases []string) ([][]float32, error) {
	r.mu.Lock()
	r.under++
	r.most = max(r.most, r.under)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.under--
		r.mu.Unlock()
	}()
	select {
	case <-time.After(r.latency):
		return r.embedder.Embed(ctx, phrases)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *remote) calls() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked)
}

// shared is a cache in memory.
type shared struct {
	mu      sync.Mutex
	vectors map[string][]float32
	gets    [][]string
}

func (s *shared) Get(_ context.Context, phrases []string) [][]float32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets = append(s.gets, slices.Clone(phrases))
	all := make([][]float32, len(phrases))
	for i, phrase := range phrases {
		all[i] = s.vectors[phrase]
	}
	return all
}

func (s *shared) Put(_ context.Context, phrases []string, vectors [][]float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, phrase := range phrases {
		s.vectors[phrase] = vectors[i]
	}
}

func newGathered(t testing.TB, config vector.Config, g vector.Batching, e vector.Embedder, c vector.Cache) *vector.Phrases {
	t.Helper()
	p, err := vector.NewBatched(config, g, e, c)
	must.OK(t, err)
	t.Cleanup(p.Close)
	return p
}

func TestGatherAsksOnceForAThousandCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{embedder: embedder{embed: lengths}, latency: 50 * time.Millisecond}
		p := newGathered(t, vector.DefaultConfig(), vector.DefaultBatching(), r, nil)
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Microsecond) // before, while and after it is asked for
				if a := p.Resolve(t.Context(), []string{"mug"})[0]; a.Err != nil {
					t.Error(a.Err)
				}
			})
		}
		wg.Wait()
		if calls := r.calls(); len(calls) != 1 || len(calls[0]) != 1 {
			t.Errorf("asked %q", calls)
		}
		if s := p.Stats(); s.Embedded.Load() != 1 || s.Joined.Load()+s.Hits.Load() != 999 {
			t.Errorf("embedded %d, joined %d, hits %d", s.Embedded.Load(), s.Joined.Load(), s.Hits.Load())
		}
	})
}

func TestGatherLingersThenLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{embedder: embedder{embed: lengths}}
		g := vector.DefaultBatching()
		p := newGathered(t, vector.DefaultConfig(), g, r, nil)
		begun := time.Now()
		go p.Resolve(t.Context(), []string{"a"})
		time.Sleep(g.MinWait - time.Nanosecond)
		go p.Resolve(t.Context(), []string{"b"})
		synctest.Wait()
		if calls := r.calls(); len(calls) != 0 {
			t.Fatalf("%q left before its time", calls)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if calls := r.calls(); len(calls) != 1 || len(calls[0]) != 2 || time.Since(begun) != g.MinWait {
			t.Fatalf("asked %q after %v", calls, time.Since(begun))
		}
	})
}

func TestGatherFullBatchLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{embedder: embedder{embed: lengths}}
		p := newGathered(t, vector.DefaultConfig(), vector.DefaultBatching(), r, nil)
		var phrases []string
		for i := range 600 {
			phrases = append(phrases, fmt.Sprint("p", i))
		}
		begun := time.Now()
		p.Resolve(t.Context(), phrases[:512])
		if time.Since(begun) != 0 || len(r.calls()) != 2 {
			t.Errorf("512 phrases took %d calls and %v", len(r.calls()), time.Since(begun))
		}
		p.Resolve(t.Context(), phrases)
		if calls := r.calls(); len(calls) != 3 || len(calls[2]) != 88 {
			t.Errorf("the other 88 took %d calls", len(calls))
		}
	})
}

// What comes while a request is under way goes together once it is back, or
// after Hold where it hangs.
func TestGatherHoldsWhileARequestIsUnderWay(t *testing.T) {
	for _, tc := range []struct{ latency, wait time.Duration }{
		{20 * time.Millisecond, 14 * time.Millisecond}, // it is back 14 ms after b came
		{time.Hour, 50 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &remote{embedder: embedder{embed: lengths}, latency: tc.latency}
			p := newGathered(t, vector.DefaultConfig(), vector.DefaultBatching(), r, nil)
			go p.Resolve(t.Context(), []string{"a"})
			time.Sleep(10 * time.Millisecond) // a has left at 4
			go p.Resolve(t.Context(), []string{"b"})
			time.Sleep(5 * time.Millisecond)
			go p.Resolve(t.Context(), []string{"c"})
			time.Sleep(tc.wait - 6*time.Millisecond)
			synctest.Wait()
			r.mu.Lock()
			before := r.under
			r.mu.Unlock()
			time.Sleep(time.Millisecond)
			synctest.Wait()
			r.mu.Lock()
			most := r.most
			under := r.under
			r.mu.Unlock()
			if before != 1 || under != map[bool]int{true: 2, false: 1}[tc.latency == time.Hour] {
				t.Errorf("under way: %d, then %d (at most %d)", before, under, most)
			}
			p.Close()
			synctest.Wait()
		})
	}
}

func TestGatherBoundsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{embedder: embedder{embed: lengths}, latency: 50 * time.Millisecond}
		g := vector.DefaultBatching()
		g.Inputs, g.Requests = 4, 3
		p := newGathered(t, vector.DefaultConfig(), g, r, nil)
		var phrases []string
		for i := range 100 {
			phrases = append(phrases, fmt.Sprint("p", i))
		}
		begun := time.Now()
		for i, a := range p.Resolve(t.Context(), phrases) {
			if a.Err != nil {
				t.Errorf("%s: %v", phrases[i], a.Err)
			}
		}
		if r.most != 3 || time.Since(begun) != 9*50*time.Millisecond {
			t.Errorf("%d at once, %v", r.most, time.Since(begun))
		}
	})
}

func TestGatherCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{embedder: embedder{embed: lengths}, latency: time.Second}
		p := newGathered(t, vector.DefaultConfig(), vector.DefaultBatching(), r, nil)
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var stayed engine.Resolved
		var wg sync.WaitGroup
		wg.Go(func() { stayed = p.Resolve(t.Context(), []string{"shared"})[0] })
		left := p.Resolve(short, []string{"shared", "alone"})
		for _, a := range left {
			if !errors.Is(a.Err, context.DeadlineExceeded) {
				t.Errorf("left with %v", a.Err)
			}
		}
		wg.Wait()
		if stayed.Err != nil {
			t.Errorf("who stayed got %v", stayed.Err)
		}
		if a := p.Resolve(t.Context(), []string{"alone"})[0]; a.Err != nil || len(r.calls()) != 1 {
			t.Errorf("what came late was not kept: %v, asked %q", a.Err, r.calls())
		}
	})
}

// A phrase everybody left before it was sent is not sent.
func TestGatherForgetsWhatNobodyWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{embedder: embedder{embed: lengths}}
		p := newGathered(t, vector.DefaultConfig(), vector.DefaultBatching(), r, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		p.Resolve(ctx, []string{"a"})
		time.Sleep(time.Second)
		if calls := r.calls(); len(calls) != 0 {
			t.Errorf("asked %q", calls)
		}
		if a := p.Resolve(t.Context(), []string{"a"})[0]; a.Err != nil {
			t.Error(a.Err)
		}
	})
}

func TestGatherPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{embedder: embedder{embed: lengths}, latency: 10 * time.Second}
		config := vector.DefaultConfig()
		config.Patience = time.Second
		p := newGathered(t, config, vector.DefaultBatching(), r, nil)
		begun := time.Now()
		a := p.Resolve(t.Context(), []string{"a"})[0]
		if engine.KindOf(a.Err) != engine.Transient || !errors.Is(a.Err, engine.ErrAway) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", a.Err, time.Since(begun))
		}
		time.Sleep(time.Minute)
		if a := p.Resolve(t.Context(), []string{"a"})[0]; a.Err != nil || len(r.calls()) != 1 {
			t.Errorf("%v, asked %q", a.Err, r.calls())
		}
	})
}

func TestGatherRefusedPhraseIsItsCallersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{embedder: embedder{embed: func(phrases []string) ([][]float32, error) {
			if slices.Contains(phrases, "bad") {
				return nil, engine.PermanentError("refused", errors.New("400"))
			}
			return lengths(phrases)
		}}}
		p := newGathered(t, vector.DefaultConfig(), vector.DefaultBatching(), r, &shared{vectors: map[string][]float32{}})
		var wg sync.WaitGroup
		for _, keys := range []string{"a b c", "d bad e", "bad", "f g h"} {
			wg.Go(func() {
				phrases := strings.Fields(keys)
				for i, a := range p.Resolve(t.Context(), phrases) {
					if (engine.ReasonOf(a.Err) == "refused") != (phrases[i] == "bad") || (a.Err == nil) == (phrases[i] == "bad") {
						t.Errorf("%s: %v", phrases[i], a.Err)
					}
				}
			})
		}
		wg.Wait()
		if calls := r.calls(); len(calls) > 9 {
			t.Errorf("%d calls for one bad phrase of 9", len(calls))
		}
	})
}

// An absent API takes nothing from phrases the shared cache holds; the cache is
// asked once per batch and given what it lacked; its vectors are the API's.
func TestGatherUsesTheSharedCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &shared{vectors: map[string][]float32{}}
		up := newGathered(t, vector.DefaultConfig(), vector.DefaultBatching(), &embedder{embed: lengths}, c)
		miss := up.Resolve(t.Context(), []string{"a", "b"})
		synctest.Wait() // Put is nobody's wait
		if len(c.vectors) != 2 || len(c.gets) != 1 {
			t.Fatalf("the cache has %v after %q", c.vectors, c.gets)
		}
		away := &embedder{embed: func([]string) ([][]float32, error) { return nil, engine.ErrAway }}
		down := newGathered(t, vector.DefaultConfig(), vector.DefaultBatching(), away, c)
		got := down.Resolve(t.Context(), []string{"a", "new", "b"})
		if !errors.Is(got[1].Err, engine.ErrAway) {
			t.Errorf("the new phrase: %v", got[1].Err)
		}
		if !slices.Equal(got[0].Vector, miss[0].Vector) || !slices.Equal(got[2].Vector, miss[1].Vector) {
			t.Errorf("hits %v, misses %v", got, miss)
		}
		if s := down.Stats(); s.Shared.Load() != 2 || s.Embedded.Load() != 1 || len(away.asked[0]) != 1 {
			t.Errorf("shared %d, embedded %d, asked %q", s.Shared.Load(), s.Embedded.Load(), away.asked)
		}
	})
}

func TestGatherCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{embedder: embedder{embed: lengths}, latency: time.Hour}
		g := vector.DefaultBatching()
		g.Requests = 1
		p := newGathered(t, vector.DefaultConfig(), g, r, nil)
		var wg sync.WaitGroup
		for _, phrase := range []string{"under way", "waiting"} {
			wg.Go(func() {
				if a := p.Resolve(t.Context(), []string{phrase})[0]; a.Err == nil || engine.KindOf(a.Err) != engine.Transient {
					t.Errorf("%s: %+v", phrase, a)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		p.Close()
		wg.Wait()
		if a := p.Resolve(t.Context(), []string{"after"})[0]; a.Err == nil {
			t.Error("an answer after the end")
		}
		p.Close()
	})
}

// slowPut is a cache that takes its time to keep something.
type slowPut struct {
	shared
	err error
}

func (s *slowPut) Put(ctx context.Context, phrases []string, vectors [][]float32) {
	time.Sleep(time.Second)
	s.err = ctx.Err()
	s.shared.Put(ctx, phrases, vectors)
}

// What was paid for is kept, though the port closes.
func TestGatherKeepsWhatItGotWhenItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slowPut{shared: shared{vectors: map[string][]float32{}}}
		p := newGathered(t, vector.DefaultConfig(), vector.DefaultBatching(), &embedder{embed: lengths}, c)
		if a := p.Resolve(t.Context(), []string{"a"})[0]; a.Err != nil {
			t.Fatal(a.Err)
		}
		p.Close()
		if c.vectors["a"] == nil || c.err != nil {
			t.Errorf("kept %v, %v", c.vectors, c.err)
		}
	})
}

// However callers come, go and meet: each gets the vector of its own phrase.
func TestGatherAnswersEachCaller(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := vector.Batching{
			Inputs:   rapid.IntRange(1, 5).Draw(rt, "inputs"),
			Requests: rapid.IntRange(1, 3).Draw(rt, "requests"),
			MinWait:  time.Duration(rapid.IntRange(0, 5).Draw(rt, "linger")) * time.Millisecond,
			MaxWait:  time.Duration(rapid.IntRange(5, 9).Draw(rt, "hold")) * time.Millisecond,
		}
		callers := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(1, 12), 1, 6), 1, 12).Draw(rt, "callers")
		starts := rapid.SliceOfN(rapid.IntRange(0, 30), len(callers), len(callers)).Draw(rt, "starts")
		bytes := rapid.SampledFrom([]int64{0, 1000, 1 << 20}).Draw(rt, "cache")
		synctest.Test(t, func(t *testing.T) {
			r := &remote{embedder: embedder{embed: lengths}, latency: 7 * time.Millisecond}
			p := newGathered(t, vector.Config{CacheBytes: bytes}, g, r, nil)
			var wg sync.WaitGroup
			for i, lengths := range callers {
				wg.Go(func() {
					time.Sleep(time.Duration(starts[i]) * time.Millisecond)
					phrases := make([]string, len(lengths))
					for j, n := range lengths {
						phrases[j] = strings.Repeat("x", n)
					}
					for j, a := range p.Resolve(t.Context(), phrases) {
						want, _ := engine.Unit([]float32{float32(lengths[j]), 1}, 2)
						if a.Err != nil || !slices.Equal(a.Vector, want) {
							t.Errorf("%d: %v, %v", lengths[j], a.Vector, a.Err)
						}
					}
				})
			}
			wg.Wait()
			asked := map[string]int{}
			for _, call := range r.calls() {
				if len(call) > g.Inputs {
					t.Errorf("a call of %d", len(call))
				}
				for _, phrase := range call {
					asked[phrase]++
				}
			}
			if most := slices.Max(slices.Collect(maps.Values(asked))); bytes == 1<<20 && most > 1 || r.most > g.Requests {
				t.Errorf("a phrase was asked for %d times, %d calls at once", most, r.most)
			}
		})
	})
}

func TestGatheringValidate(t *testing.T) {
	if err := vector.DefaultBatching().Validate(); err != nil {
		t.Error(err)
	}
	for _, g := range []vector.Batching{{}, {Inputs: 1}, {Inputs: 1, Requests: 1, MinWait: 2, MaxWait: 1}} {
		if _, err := vector.NewBatched(vector.DefaultConfig(), g, nil, nil); err == nil {
			t.Errorf("%+v was accepted", g)
		}
	}
}
