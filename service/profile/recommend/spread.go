package recommend

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"keyfold/source/catalog/index"
)

// spread chooses k of the candidates by maximal marginal relevance (Carbonell and
// Goldstein, 1998): each is the one with the largest
//
//	(1 - diversity) x score - diversity x likeness to the likest one chosen before
//
// Likeness is the mean of the cosine of the two products and of 1 where they have one
// category, else 0.
func spread(ctx context.Context, products Products, candidates []index.Found, k int, diversity float64) ([]index.Found, error) {
	units, err := unitsOf(ctx, products, candidates)
	if err != nil {
		return nil, err
	}
	likeness := make([]float64, len(candidates)) // to the likest one chosen
	chosen := make([]index.Found, 0, k)
	taken := make([]bool, len(candidates))
	for len(chosen) < min(k, len(candidates)) {
		best, most := -1, 0.0
		for i, c := range candidates {
			if taken[i] {
				continue
			}
			if value := (1-diversity)*c.Score - diversity*likeness[i]; best < 0 || value > most {
				best, most = i, value
			}
		}
		taken[best] = true
		chosen = append(chosen, candidates[best])
		for i := range candidates {
			likeness[i] = max(likeness[i], like(candidates[i], candidates[best], units[i], units[best]))
		}
	}
	return chosen, nil
}

// unitsOf returns the candidates' vectors, none of one that went meanwhile.
func unitsOf(ctx context.Context, products Products, candidates []index.Found) ([][]float64, error) {
	ids, at := make([]int32, len(candidates)), make(map[int32]int, len(candidates))
	for i, c := range candidates {
		ids[i], at[c.ID] = c.ID, i
	}
	all, err := products.Products(ctx, ids)
	units := make([][]float64, len(candidates))
	for _, p := range all {
		units[at[p.ID]] = widen(p.Vector)
	}
	return units, err
}

func like(a, b index.Found, x, y []float64) float64 {
	likeness := 0.0
	if a.Category == b.Category {
		likeness = 0.5
	}
	if x != nil && y != nil {
		likeness += floats.Dot(x, y) / 2
	}
	return likeness
}
