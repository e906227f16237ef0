package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is products in memory, with seams to slow it down and to break it.
type store struct {
	mu       sync.Mutex
	products map[int32]profile.Product
	latency  time.Duration // between the read and its answer
	fail     func(ids []int32) error
	asked    [][]int32
}

func (s *store) Products(_ context.Context, ids []int32) ([]profile.Product, error) {
	s.mu.Lock()
	s.asked = append(s.asked, slices.Clone(ids))
	var found []profile.Product
	for _, id := range slices.Backward(ids) { // in another order
		if p, ok := s.products[id]; ok {
			found = append(found, p)
		}
	}
	latency, fail := s.latency, s.fail
	s.mu.Unlock()
	time.Sleep(latency)
	if fail != nil {
		if err := fail(ids); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// set gives a product a vector whose direction tells x.
func (s *store) set(id int32, x float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.products == nil {
		s.products = map[int32]profile.Product{}
	}
	s.products[id] = profile.Product{ID: id, Vector: []float32{x, 1}}
}

func (s *store) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// read returns x, or -1 where there is no vector.
func read(r engine.Resolved) float32 {
	if r.Err != nil {
		return -1
	}
	return float32(math.Round(r.Vector[0] / r.Vector[1]))
}

func newCatalog(t testing.TB, s catalog.Store, change ...func(*catalog.Config)) *catalog.Catalog {
	t.Helper()
	config := catalog.DefaultConfig()
	config.Dimensions = 2
	for _, c := range change {
		c(&config)
	}
	c, err := catalog.New(config, s)
	must.OK(t, err)
	return c
}

func resolveOne(t testing.TB, c *catalog.Catalog, id int32) engine.Resolved {
	t.Helper()
	return c.Resolve(t.Context(), []int32{id})[0]
}

func TestResolveAlignsAndChunks(t *testing.T) {
	s := &store{}
	for id := int32(1); id <= 6; id++ {
		s.set(id, float32(id))
	}
	c := newCatalog(t, s, func(c *catalog.Config) { c.Chunk = 3 })
	c.Resolve(t.Context(), []int32{2, 9})
	answers := c.Resolve(t.Context(), []int32{5, 9, 2, 1, 3, 8, 6, 4})
	for i, want := range []float32{5, -1, 2, 1, 3, -1, 6, 4} {
		if got := read(answers[i]); got != want {
			t.Errorf("answer %d is %v (%v), want %v", i, got, answers[i].Err, want)
		}
	}
	if want := [][]int32{{2, 9}, {5, 1, 3}, {8, 6, 4}}; !slices.EqualFunc(s.asked, want, slices.Equal) {
		t.Errorf("asked %v, want %v", s.asked, want)
	}
	if got := c.Resolve(t.Context(), nil); len(got) != 0 {
		t.Errorf("nothing became %v", got)
	}
}

// An id that stands twice against the port's contract is still not missing.
func TestResolveOfARepeatedID(t *testing.T) {
	s := &store{}
	s.set(1, 7)
	for i, r := range newCatalog(t, s).Resolve(t.Context(), []int32{1, 1}) {
		if read(r) != 7 {
			t.Errorf("answer %d: %v", i, r.Err)
		}
	}
}

func TestVectorsLiveForTheirTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		s.set(1, 1)
		c := newCatalog(t, s)
		resolveOne(t, c, 1)
		s.set(1, 2)
		time.Sleep(10*time.Minute - 1)
		if got := read(resolveOne(t, c, 1)); got != 1 || s.calls() != 1 {
			t.Errorf("one tick before: %v after %d reads", got, s.calls())
		}
		time.Sleep(time.Nanosecond)
		if got := read(resolveOne(t, c, 1)); got != 2 || s.calls() != 2 {
			t.Errorf("at the TTL: %v after %d reads", got, s.calls())
		}
	})
}

// Promise(event/product-unknown)
func TestFaultsLiveForFiveSeconds(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for name, tc := range map[string]struct {
		product *profile.Product
		kind    engine.Kind
		reason  string
	}{
		"missing":     {nil, engine.Transient, "error"},
		"short":       {&profile.Product{Vector: []float32{1}}, engine.Permanent, "wrong_dimensions"},
		"none":        {&profile.Product{}, engine.Permanent, "wrong_dimensions"},
		"NaN":         {&profile.Product{Vector: []float32{nan, 1}}, engine.Permanent, "not_finite"},
		"Inf":         {&profile.Product{Vector: []float32{1, inf}}, engine.Permanent, "not_finite"},
		"zero":        {&profile.Product{Vector: []float32{0, 0}}, engine.Permanent, "zero_vector"},
		"other model": {&profile.Product{Vector: []float32{1, 0}, Model: "x"}, engine.Configuration, "other_model"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{}
			s.set(2, 2)
			if tc.product != nil {
				tc.product.ID = 1
				s.products[1] = *tc.product
			}
			c := newCatalog(t, s)
			answers := c.Resolve(t.Context(), []int32{1, 2})
			err := answers[0].Err
			if engine.KindOf(err) != tc.kind || engine.ReasonOf(err) != tc.reason ||
				errors.Is(err, engine.ErrMissing) != (tc.product == nil) {
				t.Errorf("%s: %v", name, err)
			}
			if tc.product != nil && !strings.Contains(err.Error(), "products import FILE --embed") {
				t.Errorf("%s: no cure in %q", name, err)
			}
			if read(answers[1]) != 2 {
				t.Errorf("%s: the other product's answer is %v", name, answers[1].Err)
			}
			s.set(1, 1)
			time.Sleep(catalog.FaultTTL - 1)
			if got := resolveOne(t, c, 1); !errors.Is(got.Err, err) || s.calls() != 1 {
				t.Errorf("%s, one tick before: %v after %d reads", name, got.Err, s.calls())
			}
			time.Sleep(time.Nanosecond)
			if got := read(resolveOne(t, c, 1)); got != 1 {
				t.Errorf("%s, after 5 s: still there", name)
			}
		})
	}
}

func TestOwnModelIsAccepted(t *testing.T) {
	s := &store{}
	s.set(1, 3)
	p := s.products[1]
	p.Model = "mine"
	s.products[1] = p
	c := newCatalog(t, s, func(c *catalog.Config) { c.Model = "mine" })
	if got := resolveOne(t, c, 1); read(got) != 3 {
		t.Error(got.Err)
	}
}

// An answer is as old as its question, not as its arrival.
func TestAgeCountsFromBeforeTheRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{latency: 2 * time.Second}
		c := newCatalog(t, s)
		resolveOne(t, c, 1)
		s.set(1, 1)
		time.Sleep(3 * time.Second)
		if got := resolveOne(t, c, 1); got.Err != nil {
			t.Errorf("missing 5 s after the read began: %v", got.Err)
		}
	})
}

// A slow look-up does not replace what a later one has found.
func TestLaterReadsWin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{latency: 4 * time.Second}
		s.set(1, 1)
		c := newCatalog(t, s)
		var wg sync.WaitGroup
		wg.Go(func() { resolveOne(t, c, 1) })
		time.Sleep(time.Second)
		s.set(1, 2)
		s.mu.Lock()
		s.latency = 0
		s.mu.Unlock()
		resolveOne(t, c, 1)
		wg.Wait()
		if got := read(resolveOne(t, c, 1)); got != 2 {
			t.Errorf("the slow read's %v is kept", got)
		}
	})
}

func TestFailedLookUpIsItsIDsOnly(t *testing.T) {
	for _, failure := range []error{
		errors.New("no primary"),
		engine.ConfigurationError("login", errors.New("check MONGODB_URI")),
	} {
		s := &store{}
		for id := int32(1); id <= 6; id++ {
			s.set(id, float32(id))
		}
		c := newCatalog(t, s, func(c *catalog.Config) { c.Chunk = 2 })
		resolveOne(t, c, 3)
		s.fail = func(ids []int32) error {
			if slices.Contains(ids, 5) {
				return failure
			}
			return nil
		}
		answers := c.Resolve(t.Context(), []int32{1, 2, 3, 4, 5, 6})
		for i, want := range []float32{1, 2, 3, -1, -1, 6} {
			if got := read(answers[i]); got != want {
				t.Errorf("id %d: %v, %v", i+1, got, answers[i].Err)
			}
		}
		for _, i := range []int{3, 4} {
			if err := answers[i].Err; !errors.Is(err, failure) || engine.KindOf(err) != engine.KindOf(failure) {
				t.Errorf("%v became %v", failure, err)
			}
		}
		s.fail = nil
		if got := resolveOne(t, c, 4); got.Err != nil {
			t.Errorf("the failure was kept: %v", got.Err)
		}
	}
}

func TestCacheIsBoundedByBytes(t *testing.T) {
	s := &store{}
	for id := range int32(20) {
		s.set(id, 1)
	}
	c := newCatalog(t, s, func(c *catalog.Config) { c.CacheBytes = 1000 }) // four vectors
	for _, id := range []int32{1, 2, 3, 4, 1, 5} {
		resolveOne(t, c, id)
	}
	before := s.calls()
	if resolveOne(t, c, 1); s.calls() != before {
		t.Error("1 was used last, and is gone")
	}
	if resolveOne(t, c, 2); s.calls() != before+1 {
		t.Error("2 is still there: the bound does not hold")
	}
	none := newCatalog(t, s, func(c *catalog.Config) { c.CacheBytes = 0 })
	before = s.calls()
	resolveOne(t, none, 1)
	if resolveOne(t, none, 1); s.calls() != before+2 {
		t.Error("a cache of 0 bytes kept something")
	}
	stale := newCatalog(t, s, func(c *catalog.Config) { c.CacheTTL = 0 })
	before = s.calls()
	resolveOne(t, stale, 1)
	if resolveOne(t, stale, 1); s.calls() != before+2 {
		t.Error("a TTL of 0 kept something")
	}
}

func TestResolveConcurrently(t *testing.T) {
	s := &store{}
	for id := int32(1); id <= 20; id++ {
		s.set(id, float32(id))
	}
	c := newCatalog(t, s, func(c *catalog.Config) { c.CacheBytes = 2000 })
	var wg sync.WaitGroup
	for g := range int32(4) {
		wg.Go(func() {
			for i := range int32(300) {
				ids := []int32{1 + (i+g)%20, 1 + (i+g+1)%20, 99}
				for j, r := range c.Resolve(t.Context(), ids) {
					if got := read(r); ids[j] != 99 && got != float32(ids[j]) {
						t.Errorf("%d: %v, %v", ids[j], got, r.Err)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestConfigValidate(t *testing.T) {
	if err := catalog.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := catalog.Config{CacheBytes: -1, CacheTTL: -1}.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 4 {
		t.Errorf("not all five faults at once: %v", err)
	}
	if _, err := catalog.New(catalog.Config{}, nil); err == nil {
		t.Error("the zero configuration was accepted")
	}
}

func BenchmarkResolve256Cached(b *testing.B) {
	s := &store{products: map[int32]profile.Product{}}
	ids := make([]int32, 256)
	for i := range ids {
		ids[i] = int32(i + 1)
		vector := make([]float32, 1536)
		vector[i] = 1
		s.products[ids[i]] = profile.Product{ID: ids[i], Vector: vector}
	}
	c := newCatalog(b, s, func(c *catalog.Config) { c.Dimensions = 1536 })
	for i, r := range c.Resolve(b.Context(), ids) {
		if r.Err != nil {
			b.Fatal(fmt.Errorf("%d: %w", ids[i], r.Err))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Resolve(b.Context(), ids)
	}
	if s.calls() != 1 {
		b.Fatal("not from the cache")
	}
}
