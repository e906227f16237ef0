package recommend

import (
	"cmp"
	"context"
	"math"
	"slices"

	"keyfold/source/catalog/index"
)

// blend ranks by the cosine and by popularity together. A product's score is
//
//	(1 - share) x cosine + share x log(1 + its events) / log(1 + the most events of any product)
//
// with the events of the last days, so that both terms are at most 1 and the busiest product of a
// quiet shop counts as much as that of a busy one.
type blend struct {
	share   float64
	popular *counts
}

// Of how many of the nearest and of the most popular products a blend is made first, for each
// product of the answer, and at most in the end.
const (
	blendPool = 10
	blendMost = 4096
)

// tieShare is popularity's share where none is asked for: it puts products with equal cosines in
// an order and moves no others. Where names are alike, their vectors are.
const tieShare = 1e-9

// blendOf returns the popularity that a request asks for, or what decides between equal cosines;
// nil where that is not known.
func (r *Recommender) blendOf(ctx context.Context, o Options) (*blend, error) {
	if o.Popularity == 0 {
		if popular := r.popular.ready(ctx, r.ports.History, r.config); popular != nil {
			return &blend{tieShare, popular}, nil
		}
		return nil, nil
	}
	popular, err := r.popular.get(ctx, r.ports.History, r.config)
	if err != nil {
		return nil, ofHistory(err)
	}
	return &blend{o.Popularity, popular}, nil
}

// of returns a product's popularity, from 0 to 1.
func (b *blend) of(id int32) float64 {
	if len(b.popular.ordered) == 0 {
		return 0
	}
	return math.Log1p(float64(b.popular.events[id])) / math.Log1p(float64(b.popular.ordered[0].events))
}

// score adds popularity to a cosine.
func (b *blend) score(id int32, cosine float64) float64 {
	return (1-b.share)*cosine + b.share*b.of(id)
}

// search returns the products with the largest scores that a query may have. It looks at the
// nearest and at the most popular ones, at more of both as long as a product that is among
// neither could be among the answer's (the threshold algorithm of Fagin, Lotem and Naor, 2003).
func (b *blend) search(ctx context.Context, products Products, q index.Query) ([]index.Found, error) {
	k := q.K
	if b.share == tieShare {
		q.K = k + 1
		near, err := products.Search(ctx, q)
		if err != nil || distinct(near) {
			return near[:min(k, len(near))], err
		}
	}
	for q.K = blendPool * k; ; q.K *= 4 {
		near, err := products.Search(ctx, q)
		if err != nil {
			return nil, err
		}
		found, least, err := b.withPopular(ctx, products, q, near)
		if err != nil {
			return nil, err
		}
		all := len(near) < q.K || q.K >= blendMost
		if !all {
			// What is not among them is as near as the last of the nearest at most, and as popular
			// as the last of the popular.
			bound := (1-b.share)*near[len(near)-1].Score + b.share*least
			all = len(found) >= k && found[k-1].Score >= bound
		}
		if all {
			return found[:min(k, len(found))], nil
		}
	}
}

// distinct reports whether popularity, where it only puts equal products in order, leaves these as
// they are.
func distinct(near []index.Found) bool {
	for i := range len(near) - 1 {
		if near[i].Score-near[i+1].Score <= tieShare {
			return false
		}
	}
	return true
}

// withPopular adds as many of the most popular products to the nearest ones, and orders all by
// their scores. It returns how popular those are at most that are not among them.
func (b *blend) withPopular(ctx context.Context, products Products, q index.Query, near []index.Found) (all []index.Found, least float64, err error) {
	met := make(map[int32]bool, len(near))
	for _, f := range near {
		met[f.ID] = true
		f.Score = b.score(f.ID, f.Score)
		all = append(all, f)
	}
	var others []int32
	for i, c := range b.popular.ordered {
		if i == q.K {
			least = b.of(c.id)
			break
		}
		if !met[c.id] && !q.Skip[c.id] {
			others = append(others, c.id)
		}
	}
	popular, err := products.Cosines(ctx, others, q.Vector)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range popular {
		if q.Category == "" || f.Category == q.Category {
			f.Score = b.score(f.ID, f.Score)
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(x, y index.Found) int { return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(x.ID, y.ID)) })
	return all, least, nil
}

// explain says what the products' scores are made of. Where popularity has only put equal ones in
// order, they are the cosines.
func (b *blend) explain(ctx context.Context, products Products, query []float64, all []Product) error {
	ids, cosines := make([]int32, len(all)), make(map[int32]float64, len(all))
	for i, p := range all {
		ids[i] = p.ID
	}
	found, err := products.Cosines(ctx, ids, query)
	for _, f := range found {
		cosines[f.ID] = f.Score
	}
	for i := range all {
		p := &all[i]
		cosine := cosines[p.ID]
		switch {
		case b.share == tieShare:
			p.Score = cosine
		case p.Score != 0:
			p.Cosine, p.PopularityShare = cosine, b.share*b.of(p.ID)/p.Score
		default:
			p.Cosine = cosine
		}
	}
	return err
}
