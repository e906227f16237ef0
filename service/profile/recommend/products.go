package recommend

import (
	"cmp"
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/service/profile/explanation"
	"keyfold/source/catalog"
	"keyfold/source/catalog/index"
)

// Products are those that can be recommended.
type Products interface {
	// Search returns the products with the largest scores, the largest first.
	Search(ctx context.Context, q index.Query) ([]index.Found, error)
	// Cosines returns those of the products that can be recommended, with their inner products
	// with a vector as scores, in any order.
	Cosines(ctx context.Context, ids []int32, vector []float64) ([]index.Found, error)
	// Products returns those of the products that can be recommended, in any order, with unit
	// vectors.
	Products(ctx context.Context, ids []int32) ([]profile.Product, error)
}

// InMemory has the products of an index.
type InMemory struct{ Index *index.Index }

// Search implements [Products].
func (m InMemory) Search(_ context.Context, q index.Query) ([]index.Found, error) {
	return m.Index.Search(q), nil
}

// Cosines implements [Products].
func (m InMemory) Cosines(_ context.Context, ids []int32, vector []float64) (all []index.Found, err error) {
	for _, id := range ids {
		if item, cosine, known := m.Index.Cosine(id, vector); known {
			all = append(all, index.Found{Item: item, Score: cosine})
		}
	}
	return all, nil
}

// Products implements [Products].
func (m InMemory) Products(_ context.Context, ids []int32) (all []profile.Product, err error) {
	for _, id := range ids {
		if item, unit, known := m.Index.Product(id); known {
			all = append(all, profile.Product{ID: id, Name: item.Name, Category: item.Category, Vector: narrow(unit)})
		}
	}
	return all, nil
}

func narrow(wide []float64) []float32 {
	v := make([]float32, len(wide))
	for i, component := range wide {
		v[i] = float32(component)
	}
	return v
}

// VectorStore is a store with an index of vectors of its own.
type VectorStore interface {
	NearestProducts(ctx context.Context, q profile.VectorQuery) ([]profile.Product, error)
	Products(ctx context.Context, ids []int32) ([]profile.Product, error)
}

// Reading searches a store by reading all of its products: for what asks seldom, and has no room
// for the catalogue in memory.
type Reading struct {
	explanation.Store
}

// NearestProducts implements [VectorStore].
func (r Reading) NearestProducts(ctx context.Context, q profile.VectorQuery) ([]profile.Product, error) {
	streams := r.ProductStreams(ctx)
	for i, stream := range streams {
		streams[i] = func(yield func(profile.Product, error) bool) {
			for p, err := range stream {
				if err == nil && (slices.Contains(q.Without, p.ID) || q.Category != "" && p.Category != q.Category) {
					continue
				}
				if !yield(p, err) {
					return
				}
			}
		}
	}
	nearest, err := catalog.Nearest(ctx, [][]float64{q.Vector}, q.Limit, streams...)
	if err != nil {
		return nil, err
	}
	var ids []int32
	for _, n := range nearest[0] {
		ids = append(ids, n.Product.ID)
	}
	return r.Products(ctx, ids) // the search keeps no vector
}

// InStore has the products of a store that searches.
type InStore struct {
	Store      VectorStore
	Index      string // name of the store's index
	Dimensions int
	Model      string
}

// Search implements [Products]. The scores are computed from the vectors that come back, so that
// they are those that a search in memory has.
func (s InStore) Search(ctx context.Context, q index.Query) (found []index.Found, err error) {
	without := make([]int32, 0, len(q.Skip))
	for id := range q.Skip {
		without = append(without, id)
	}
	slices.Sort(without)
	products, err := s.Store.NearestProducts(ctx, profile.VectorQuery{Index: s.Index, Vector: q.Vector, Limit: q.K, Category: q.Category, Without: without})
	if err != nil {
		return nil, err
	}
	found = scored(s.usable(products), q.Vector)
	slices.SortFunc(found, func(a, b index.Found) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return found, nil
}

// scored returns products with their inner products with a vector.
func scored(products []profile.Product, vector []float64) (all []index.Found) {
	for _, p := range products {
		all = append(all, index.Found{Item: index.Item{ID: p.ID, Name: p.Name, Category: p.Category}, Score: floats.Dot(widen(p.Vector), vector)})
	}
	return all
}

// Cosines implements [Products].
func (s InStore) Cosines(ctx context.Context, ids []int32, vector []float64) ([]index.Found, error) {
	products, err := s.Products(ctx, ids)
	return scored(products, vector), err
}

// Products implements [Products].
func (s InStore) Products(ctx context.Context, ids []int32) ([]profile.Product, error) {
	products, err := s.Store.Products(ctx, slices.Clone(ids))
	return s.usable(products), err
}

// usable returns the products with unit vectors, without those of another model and without a
// usable vector.
func (s InStore) usable(products []profile.Product) (all []profile.Product) {
	for _, p := range products {
		unit, err := engine.Unit(p.Vector, s.Dimensions)
		if err == nil && (p.Model == "" || p.Model == s.Model) {
			p.Vector = narrow(unit)
			all = append(all, p)
		}
	}
	return all
}

func widen(narrow []float32) []float64 {
	v := make([]float64, len(narrow))
	for i, component := range narrow {
		v[i] = float64(component)
	}
	return v
}
