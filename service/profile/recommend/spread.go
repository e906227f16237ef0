package recommend

import (
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
func spread(products *index.Index, candidates []index.Found, k int, diversity float64) []index.Found {
	units := make([][]float64, len(candidates))
	for i, c := range candidates {
		_, units[i], _ = products.Product(c.ID) // none of one that went meanwhile
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
	return chosen
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
