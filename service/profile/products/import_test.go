package products_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/products"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store keeps products in memory.
type store struct {
	products map[int32]profile.Product
	fail     error
}

func (s *store) PutProducts(_ context.Context, all []profile.Product, _ engine.Millis) error {
	if s.fail != nil {
		return s.fail
	}
	for _, p := range all {
		s.products[p.ID] = p
	}
	return nil
}

func (s *store) Products(_ context.Context, ids []int32) (found []profile.Product, err error) {
	for _, id := range ids {
		if p, ok := s.products[id]; ok {
			found = append(found, p)
		}
	}
	return found, s.fail
}

// embedder is the offline one, which counts and can fail.
type embedder struct {
	vector.Embedder
	name  string
	calls [][]string
	fail  error
}

func (e *embedder) Model() string { return e.name }

func (e *embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	e.calls = append(e.calls, slices.Clone(texts))
	if e.fail != nil {
		return nil, e.fail
	}
	return e.Embedder.Embed(ctx, texts)
}

const dimensions = 16

func newImport(t *testing.T) (*products.Import, *store, *embedder) {
	t.Helper()
	hash, err := vector.NewHash(dimensions)
	must.OK(t, err)
	s, e := &store{products: map[int32]profile.Product{}}, &embedder{Embedder: hash, name: "one"}
	return &products.Import{Store: s, Known: s, Dimensions: dimensions, Embedder: e}, s, e
}

func things(n int) []profile.Product {
	all := make([]profile.Product, n)
	for i := range all {
		all[i] = profile.Product{ID: int32(i + 1), Name: fmt.Sprint("Thing ", i), Category: "Home/Things"}
	}
	return all
}

func stream(all []profile.Product, err error) iter.Seq2[profile.Product, error] {
	return func(yield func(profile.Product, error) bool) {
		for _, p := range all {
			if !yield(p, nil) {
				return
			}
		}
		if err != nil {
			yield(profile.Product{}, err)
		}
	}
}

// What the store has from the same model and the same text is not made again;
// all else is.
func TestImportMakesWhatIsMissing(t *testing.T) {
	im, s, e := newImport(t)
	var stored []int
	im.Stored = func(n int) { stored = append(stored, n) }
	done, err := im.All(t.Context(), stream(things(600), nil))
	if err != nil || done != (products.Imported{Stored: 600, Embedded: 600}) || !slices.Equal(stored, []int{250, 500, 600}) {
		t.Fatalf("%+v %v %v", done, err, stored)
	}
	if len(e.calls) != 3 || e.calls[0][0] != catalog.EmbedText(things(1)[0]) || s.products[1].Model != "one" {
		t.Errorf("%d calls, %+v", len(e.calls), s.products[1])
	}
	e.calls = nil
	changed := things(600)
	changed[0].Name = "Another"                     // its text
	changed[1].Category = "Home > Things"           // not its text
	changed[2].Vector = make([]float32, dimensions) // its own vector
	changed[2].Vector[0] = 1
	done, err = im.All(t.Context(), stream(changed, nil))
	if err != nil || done != (products.Imported{Stored: 600, Embedded: 1, Known: 598}) || len(e.calls) != 1 {
		t.Errorf("%+v %v, %d calls", done, err, len(e.calls))
	}
	if p := s.products[3]; p.Model != "" || p.Vector[0] != 1 {
		t.Errorf("a vector of the file became %+v", p)
	}
	if p := s.products[2]; p.Category != "Home > Things" || p.Vector == nil {
		t.Errorf("%+v", p)
	}
	e.name = "two"
	if done, err = im.All(t.Context(), stream(things(10), nil)); err != nil || done.Embedded != 10 || s.products[1].Model != "two" {
		t.Errorf("of another model: %+v %v", done, err)
	}
	damaged := s.products[1]
	damaged.Vector = make([]float32, dimensions)
	s.products[1] = damaged
	if done, err = im.All(t.Context(), stream(things(10), nil)); err != nil || done.Embedded != 1 || done.Known != 9 {
		t.Errorf("a stored vector that cannot be used: %+v %v", done, err)
	}
	im.Known = nil
	if done, err = im.All(t.Context(), stream(things(10), nil)); err != nil || done.Embedded != 10 {
		t.Errorf("anew: %+v %v", done, err)
	}
}

// A fault stops the import; what came before it is stored, where it can be.
func TestImportStopsAtAFault(t *testing.T) {
	im, s, _ := newImport(t)
	broken := errors.New("line 301: broken")
	done, err := im.All(t.Context(), stream(things(300), broken))
	if !errors.Is(err, broken) || done.Stored != 300 || len(s.products) != 300 {
		t.Errorf("a broken line: %+v %v", done, err)
	}

	var e *embedder
	im, s, e = newImport(t)
	e.fail = engine.ConfigurationError("embedding_api_key", errors.New("refused"))
	if done, err = im.All(t.Context(), stream(things(300), nil)); engine.KindOf(err) != engine.Configuration || done.Stored != 0 || len(e.calls) != 1 {
		t.Errorf("a refused key: %+v %v, %d calls", done, err, len(e.calls))
	}
	e.fail = nil
	short := things(3)
	short[1].Vector = []float32{1}
	if done, err = im.All(t.Context(), stream(short, nil)); engine.KindOf(err) != engine.Permanent || done.Stored != 0 || len(s.products) != 0 {
		t.Errorf("a short vector: %+v %v", done, err)
	}
	im.Embedder = nil
	if done, err = im.All(t.Context(), stream(things(3), nil)); err == nil || done.Stored != 0 {
		t.Errorf("nothing to embed with: %+v %v", done, err)
	}
	im, s, _ = newImport(t)
	s.fail = errors.New("away")
	if done, err = im.All(t.Context(), stream(things(300), nil)); !errors.Is(err, s.fail) || done.Stored != 0 {
		t.Errorf("no store: %+v %v", done, err)
	}
}

// Bad products are named together, at most so many of them. From the first one on,
// none is stored, unless they are to be left out.
func TestBadProducts(t *testing.T) {
	bad := &catalog.LineError{Line: 3, Err: engine.PermanentError("malformed_product", errors.New("no JSON"))}
	file := func(yield func(profile.Product, error) bool) {
		all := things(2)
		_ = yield(all[0], nil) && yield(all[1], nil) && yield(profile.Product{}, bad) && yield(profile.Product{ID: 4, Name: "Short", Vector: []float32{1, 2}}, nil) &&
			yield(profile.Product{ID: 5, Vector: []float32{1}}, nil) && yield(profile.Product{ID: 6, Name: "Thing"}, nil)
	}
	im, s, e := newImport(t)
	done, err := im.All(t.Context(), file)
	if done.Stored != 2 || len(s.products) != 2 || engine.KindOf(err) != engine.Permanent || len(e.calls) != 1 {
		t.Errorf("%+v %v, %d products are stored", done, err, len(s.products))
	}
	for _, want := range []string{"3 invalid products", "--skip-bad", "line 3: no JSON", "product 4: ", "product 5: "} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	im.SkipBad = true
	done, err = im.All(t.Context(), file)
	if err != nil || done.Stored != 3 || done.Skipped != 3 || len(s.products) != 3 || s.products[6].Name == "" || !strings.Contains(im.Warning(done), "3 bad products left out:\n  line 3: ") {
		t.Errorf("left out: %+v %v, %s", done, err, im.Warning(done))
	}
	short := things(600)
	for i := range short {
		short[i].Vector = []float32{1}
	}
	if _, err = im.All(t.Context(), stream(short, nil)); err != nil || strings.Count(im.Bad.List(), "\n") != 21 || !strings.HasSuffix(im.Bad.List(), "and 580 more") {
		t.Errorf("%v %s", err, im.Bad.List())
	}
}

// A product whose vector can be made of its id only is taken, as real catalogues have
// some, and a warning says how many there are.
func TestNamelessProducts(t *testing.T) {
	im, s, _ := newImport(t)
	done, err := im.All(t.Context(), stream([]profile.Product{{ID: 1, Name: "Mug"}, {ID: 2}, {ID: 3, Category: "Home"}}, nil))
	if err != nil || done.Stored != 3 || done.Nameless != 1 || len(s.products) != 3 || !strings.HasPrefix(im.Warning(done), "1 product without embedding, name and category: ") {
		t.Errorf("%+v %v %q", done, err, im.Warning(done))
	}
	if done.Nameless = 0; im.Warning(done) != "" {
		t.Errorf("a warning of nothing: %q", im.Warning(done))
	}
}
