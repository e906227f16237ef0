package vector_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/source/vector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// embedder is a seam: it records what it was asked for.
type embedder struct {
	embed func(phrases []string) ([][]float32, error)
	mu    sync.Mutex
	asked [][]string
}

func (e *embedder) Embed(_ context.Context, phrases []string) ([][]float32, error) {
	e.mu.Lock()
	e.asked = append(e.asked, slices.Clone(phrases))
	e.mu.Unlock()
	return e.embed(phrases)
}

func (e *embedder) Model() string   { return "seam" }
func (e *embedder) Dimensions() int { return 2 }

// lengths gives each phrase a vector of its length.
func lengths(phrases []string) ([][]float32, error) {
	all := make([][]float32, len(phrases))
	for i, phrase := range phrases {
		all[i] = []float32{float32(len(phrase)), 1}
	}
	return all, nil
}

func newPhrases(t testing.TB, e vector.Embedder, bytes int64) *vector.Phrases {
	t.Helper()
	p, err := vector.NewPhrases(vector.Config{CacheBytes: bytes}, e)
	must.OK(t, err)
	return p
}

func TestResolveNormalisesAndAsksOnce(t *testing.T) {
	e := &embedder{embed: lengths}
	p := newPhrases(t, e, 1<<20)
	keys := []string{"a b", " a \t b", "c", "a b ", "  \u00a0"}
	answers := p.Resolve(t.Context(), keys)
	if want := [][]string{{"a b", "c"}}; !slices.EqualFunc(e.asked, want, slices.Equal) {
		t.Fatalf("asked %q, want %q", e.asked, want)
	}
	for _, i := range []int{0, 1, 3} {
		if v := answers[i].Vector; answers[i].Err != nil || math.Abs(v[0]-3/math.Sqrt(10)) > 1e-12 {
			t.Errorf("%q: %+v", keys[i], answers[i])
		}
	}
	if err := answers[4].Err; engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != "blank_phrase" {
		t.Errorf("blank: %v", err)
	}
	if again := p.Resolve(t.Context(), []string{"a  b"}); len(e.asked) != 1 || &again[0].Vector[0] != &answers[0].Vector[0] {
		t.Error("a phrase the cache holds was asked for again")
	}
	if s := p.Stats(); s.Hits.Load() != 1 || s.Embedded.Load() != 2 || s.Failures.Load() != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestResolveOfNothing(t *testing.T) {
	e := &embedder{embed: lengths}
	if got := newPhrases(t, e, 0).Resolve(t.Context(), nil); len(got) != 0 || len(e.asked) != 0 {
		t.Errorf("got %v, asked %v", got, e.asked)
	}
}

func TestResolveKeepsTheKindOfAFailedCall(t *testing.T) {
	for _, failure := range []error{
		errors.New("timeout"),
		engine.ConfigurationError("api_key", errors.New("set OPENAI_API_KEY")),
		engine.PermanentError("refused", errors.New("refused")),
	} {
		e := &embedder{embed: lengths}
		p := newPhrases(t, e, 1<<20)
		p.Resolve(t.Context(), []string{"known"})
		e.embed = func([]string) ([][]float32, error) { return nil, failure }
		answers := p.Resolve(t.Context(), []string{"x", "known", "y"})
		for _, i := range []int{0, 2} {
			if err := answers[i].Err; !errors.Is(err, failure) || engine.KindOf(err) != engine.KindOf(failure) {
				t.Errorf("%v became %v", failure, err)
			}
		}
		if answers[1].Err != nil {
			t.Errorf("a cached phrase failed with the call: %v", answers[1].Err)
		}
		e.embed = lengths
		if got := p.Resolve(t.Context(), []string{"x"}); got[0].Err != nil {
			t.Errorf("the failure was kept: %v", got[0].Err)
		}
	}
}

// A phrase that is refused for good takes no other with it.
func TestResolveFindsTheRefusedPhrase(t *testing.T) {
	e := &embedder{embed: func(phrases []string) ([][]float32, error) {
		if slices.Contains(phrases, "bad") {
			return nil, engine.PermanentError("refused", errors.New("400"))
		}
		return lengths(phrases)
	}}
	keys := strings.Fields("a b c d bad e f g h i j k l m n o")
	answers := newPhrases(t, e, 1<<20).Resolve(t.Context(), keys)
	for i, a := range answers {
		if (a.Err != nil) != (keys[i] == "bad") {
			t.Errorf("%s: %v", keys[i], a.Err)
		}
	}
	if len(e.asked) > 1+2*4 {
		t.Errorf("%d calls for one bad phrase of 16", len(e.asked))
	}
}

func TestResolveChecksEachVector(t *testing.T) {
	nan := float32(math.NaN())
	e := &embedder{embed: func([]string) ([][]float32, error) {
		return [][]float32{{1, 2}, {1}, {nan, 1}, {0, 0}, nil}, nil
	}}
	p := newPhrases(t, e, 1<<20)
	answers := p.Resolve(t.Context(), []string{"good", "short", "nan", "zero", "none"})
	for i, reason := range []string{"", "wrong_dimensions", "not_finite", "zero_vector", "wrong_dimensions"} {
		err := answers[i].Err
		if reason == "" && err == nil {
			continue
		}
		if engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != reason {
			t.Errorf("answer %d: %v, want %q", i, err, reason)
		}
	}
	answers = p.Resolve(t.Context(), []string{"x", "y"})
	if err := answers[0].Err; err == nil || engine.KindOf(err) != engine.Transient {
		t.Errorf("5 vectors for 2 phrases: %v", err)
	}
}

func TestCacheIsBoundedByBytes(t *testing.T) {
	e := &embedder{embed: lengths}
	p := newPhrases(t, e, 1000) // four entries of 2 components
	resolve := func(text string) { p.Resolve(t.Context(), []string{text}) }
	for _, text := range strings.Fields("a b c d a e") { // b is the oldest when e comes
		resolve(text)
	}
	before := len(e.asked)
	resolve("a")
	if len(e.asked) != before {
		t.Error("a was used last, and is gone")
	}
	resolve("b")
	if len(e.asked) != before+1 {
		t.Error("b is still there: the bound does not hold")
	}
	for i := range 100 {
		resolve(fmt.Sprint("phrase ", i))
	}
	none := newPhrases(t, e, 0)
	before = len(e.asked)
	none.Resolve(t.Context(), []string{"a"})
	none.Resolve(t.Context(), []string{"a"})
	if len(e.asked) != before+2 {
		t.Error("a cache of 0 bytes kept something")
	}
}

func TestResolveConcurrently(t *testing.T) {
	h, err := vector.NewHash(16)
	must.OK(t, err)
	p := newPhrases(t, h, 4000)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				keys := []string{fmt.Sprint("p", (i+g)%20), fmt.Sprint("p", (i+g+1)%20)}
				for j, a := range p.Resolve(t.Context(), keys) {
					raw, _ := h.Embed(t.Context(), keys[j:j+1])
					want, _ := engine.Unit(raw[0], 16)
					if a.Err != nil || !slices.Equal(a.Vector, want) {
						t.Errorf("%s: %v, %v", keys[j], a.Vector, a.Err)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestResolveEndsWithItsContext(t *testing.T) {
	h, err := vector.NewHash(16)
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answers := newPhrases(t, h, 0).Resolve(ctx, []string{"a"})
	if err := answers[0].Err; !errors.Is(err, context.Canceled) || engine.KindOf(err) != engine.Transient {
		t.Errorf("got %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := vector.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if _, err := vector.NewPhrases(vector.Config{CacheBytes: -1}, nil); err == nil {
		t.Error("a negative bound was accepted")
	}
}

func BenchmarkHashThreeWords(b *testing.B) {
	h, err := vector.NewHash(1536)
	must.OK(b, err)
	phrase := []string{"wireless bluetooth headphones"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Embed(b.Context(), phrase); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResolve256Cached(b *testing.B) {
	h, err := vector.NewHash(1536)
	must.OK(b, err)
	p := newPhrases(b, h, 32<<20)
	keys := make([]string, 256)
	for i := range keys {
		keys[i] = fmt.Sprint("wireless bluetooth headphones ", i)
	}
	p.Resolve(b.Context(), keys)
	b.ReportAllocs()
	for b.Loop() {
		p.Resolve(b.Context(), keys)
	}
}
