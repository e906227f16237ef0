package recommend

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// popularWorld is a world of so many products, of which a third had events.
func popularWorld(t *testing.T, products int32) *world {
	w := newWorld()
	random := rand.New(rand.NewPCG(3, 4))
	for id := int32(61); id <= products; id++ {
		v := make([]float32, dimensions)
		for i := range v {
			v[i] = float32(random.NormFloat64())
		}
		w.products.Put(profile.Product{ID: id, Name: fmt.Sprint("product ", id), Category: string('a' + id%3), Vector: v})
	}
	w.counts = map[int32]int64{products + 1: 20_000} // the catalogue does not have it
	for id := int32(1); id <= products; id += 3 {
		w.counts[id] = int64(math.Exp(9 * random.Float64()))
	}
	w.did(t, profile.ProductPurchase, 5, "", time.Hour)
	w.did(t, profile.ProductView, 6, "", time.Minute)
	return w
}

// byAll ranks by looking at every product.
func (w *world) byAll(products int32, o Options, skip ...int32) (all []Product) {
	for id := range products {
		item, unit, known := w.products.Product(id + 1)
		if !known || slices.Contains(skip, item.ID) || o.Category != "" && item.Category != o.Category {
			continue
		}
		cosine := floats.Dot(unit, w.profiles[7].Vector)
		of := o.Popularity * math.Log(1+float64(w.counts[item.ID])) / math.Log(20_001)
		score := (1-o.Popularity)*cosine + of
		all = append(all, Product{ID: item.ID, Score: score, Cosine: cosine, PopularityShare: of / score})
	}
	slices.SortFunc(all, func(a, b Product) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return all[:min(o.K, len(all))]
}

// With a share of popularity an answer has the products with the largest scores of all, as many
// as are asked for, without those that are left out and of the category that is named; it says
// what each score is made of.
//
// Promise(recommend/popularity): On request popularity has a share of each product's score, and the answer says which.
func TestPopularity(t *testing.T) {
	const products = 2000
	w := popularWorld(t, products)
	r := w.recommender(t)
	for _, popularity := range []float64{0.001, 0.1, 0.3, 0.6, 0.9, 1} {
		for _, k := range []int{1, 10, 200} {
			o := DefaultOptions()
			o.Popularity, o.K = popularity, k
			w.answersByAll(t, r, o, products)
			o.Exclude = ExcludeBought
			w.answersByAll(t, r, o, products, 5)
			o.Exclude, o.Category = ExcludeSeen, "b"
			w.answersByAll(t, r, o, products, 5, 6)
		}
	}
}

func (w *world) answersByAll(t *testing.T, r *Recommender, o Options, products int32, skip ...int32) {
	t.Helper()
	a, err := r.ForUser(t.Context(), 7, o)
	if err != nil || a.Popularity != o.Popularity || a.Basis != ByProfile {
		t.Fatalf("%+v: %+v, %v", o, a, err)
	}
	want := w.byAll(products, o, skip...)
	if len(want) != len(a.Products) {
		t.Fatalf("%+v: %d products, want %d", o, len(a.Products), len(want))
	}
	for i, p := range a.Products {
		for _, d := range []float64{p.Score - want[i].Score, p.Cosine - want[i].Cosine, p.PopularityShare - want[i].PopularityShare} {
			if p.ID != want[i].ID || math.Abs(d) > 1e-6 {
				t.Fatalf("%+v: at %d %+v, want %+v", o, i, p, want[i])
			}
		}
	}
}

// In a catalogue that is searched by codes, nearly all of the best are found.
func TestPopularityInALargeCatalogue(t *testing.T) {
	const products = 8000
	w := popularWorld(t, products)
	r := w.recommender(t)
	found, all := 0, 0
	for _, popularity := range []float64{0.1, 0.3, 0.6, 1} {
		o := DefaultOptions()
		o.Popularity, o.K = popularity, 50
		a, err := r.ForUser(t.Context(), 7, o)
		must.OK(t, err)
		got := ids(a)
		for _, p := range w.byAll(products, o) {
			all++
			if slices.Contains(got, p.ID) {
				found++
			}
		}
	}
	if found*100 < all*98 {
		t.Errorf("%d of %d are found", found, all)
	}
}

// The shares of events are of the cosine, whatever popularity adds; spread answers keep the
// share.
func TestPopularityWithReasons(t *testing.T) {
	w := popularWorld(t, 500)
	r := w.recommender(t)
	o := DefaultOptions()
	o.Popularity, o.Explain, o.Diversity = 0.3, true, 0.2
	a, err := r.ForUser(t.Context(), 7, o)
	if err != nil || len(a.Products) != o.K {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, p := range a.Products {
		sum := p.Remainder
		for _, part := range p.Because {
			sum += part.Share
		}
		if math.Abs(sum-1) > 1e-6 || math.Abs(p.Score*(1-p.PopularityShare)-0.7*p.Cosine) > 1e-9 {
			t.Errorf("%+v: shares add up to %v", p, sum)
		}
	}
}

// Popularity needs the history: without one the request is refused, and while it is away it says
// so. Where nothing was counted the cosine decides.
func TestPopularityNeedsTheHistory(t *testing.T) {
	w := popularWorld(t, 60)
	o := DefaultOptions()
	alone, err := New(DefaultConfig(), Ports{Profiles: w, Products: InMemory{w.products}, Laws: w.laws})
	must.OK(t, err)
	plain, err := alone.ForUser(t.Context(), 7, o)
	must.OK(t, err)
	o.Popularity = 0.5
	if _, err := alone.ForUser(t.Context(), 7, o); engine.ReasonOf(err) != "no_history" || engine.KindOf(err) != engine.Permanent {
		t.Errorf("without a history: %v", err)
	}
	w.counts = nil
	if a, err := w.recommender(t).ForUser(t.Context(), 7, o); err != nil || !slices.Equal(ids(a), ids(plain)) {
		t.Errorf("nothing was counted: %+v, %v", a, err)
	}
	h := &counting{world: w, err: fmt.Errorf("%w: it is down", engine.ErrAway)}
	r, err := New(DefaultConfig(), Ports{Profiles: w, Products: InMemory{w.products}, History: h, Laws: w.laws})
	must.OK(t, err)
	if _, err := r.ForUser(t.Context(), 7, o); !errors.Is(err, ErrHistory) {
		t.Errorf("while the history is away: %v", err)
	}
}

// Of products with equal cosines the one with the most events comes first, also where more are
// equal than are asked for; what is not equal stays as it is, and so do the scores. While the
// history does not answer, ids decide.
//
// Promise(recommend/ties): Among products that are equally near to a user, those with the most events of the last days come first.
func TestEqualCosinesGoByPopularity(t *testing.T) {
	w := newWorld()
	w.did(t, profile.ProductPurchase, 5, "", time.Hour)
	_, unit, _ := w.products.Product(5)
	w.counts = map[int32]int64{30: 1_000_000}
	for id := int32(100); id < 600; id++ { // all as near as can be
		w.products.Put(profile.Product{ID: id, Name: "the same", Vector: narrow(unit)})
		w.counts[id] = int64(1 + id%250)
	}
	w.counts[417], w.counts[555] = 700, 600
	o := DefaultOptions()
	o.K, o.Exclude = 3, ExcludeBought
	c := DefaultConfig()
	c.PopularTTL = 0
	r, err := New(c, Ports{Profiles: w, Products: InMemory{w.products}, History: w, Phrases: w, Laws: w.laws})
	must.OK(t, err)
	a, err := r.ForUser(t.Context(), 7, o)
	if err != nil || !slices.Equal(ids(a), []int32{417, 555, 249}) || a.Popularity != 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, p := range a.Products {
		if math.Abs(p.Score-1) > 1e-6 || p.Cosine != 0 || p.PopularityShare != 0 {
			t.Errorf("%+v", p)
		}
	}
	h := &counting{world: w, err: fmt.Errorf("%w: it is down", engine.ErrAway)}
	if r, err = New(DefaultConfig(), Ports{Profiles: w, Products: InMemory{w.products}, History: h, Phrases: w, Laws: w.laws}); err != nil {
		t.Fatal(err)
	}
	if a, err := r.ForUser(t.Context(), 7, o); err != nil || !slices.Equal(ids(a), []int32{100, 101, 102}) {
		t.Errorf("while the history is away: %+v, %v", a, err)
	}
}

// An answer waits for no count that only puts equal products in order, and uses it once it is
// there.
func TestNoAnswerWaitsForTheOrderOfEqualProducts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.did(t, profile.ProductPurchase, 5, "", time.Hour)
		_, unit, _ := w.products.Product(5)
		w.products.Put(profile.Product{ID: 9, Name: "the same", Vector: narrow(unit)})
		h := &counting{world: w, takes: 10 * time.Second}
		r, err := New(DefaultConfig(), Ports{Profiles: w, Products: InMemory{w.products}, History: h, Phrases: w, Laws: w.laws})
		must.OK(t, err)
		began := time.Now()
		for _, first := range []int32{5, 5, 9} {
			a, err := r.ForUser(t.Context(), 7, DefaultOptions())
			synctest.Wait()
			if err != nil || a.Products[0].ID != first || h.began != 1 {
				t.Errorf("after %v: %+v, %v, %d counts", time.Since(began), a, err, h.began)
			}
			time.Sleep(6 * time.Second)
		}
		if took := time.Since(began); took != 18*time.Second {
			t.Errorf("the answers took %v", took-18*time.Second)
		}
	})
}
