package similar

import (
	"math"

	"keyfold/source/catalog/learned"
)

// Neighbours is item kNN: what two products' sessions have in common, with no vectors.
type Neighbours struct {
	sessions []float64 // by candidate: how many it is in
	together *learned.Matrix
	rows
}

// shrinkage is added to the denominator, so that a product of few sessions is not near
// to another by chance.
const shrinkage = 5

// NewNeighbours learns from sessions, each a list of different candidates.
func NewNeighbours(sessions [][]int32, candidates int) *Neighbours {
	pairs := countPairs(sessions, candidates)
	return &Neighbours{pairs.Sessions, pairs.Together(), newRows()}
}

// Row returns the sessions in common by the geometric mean of both products' sessions,
// 1 for the product itself, nil for what is no candidate.
//
// Source: the item kNN of Ludewig and Jannach, "Evaluation of Session-based
// Recommendation Algorithms", 2018 (arXiv 1803.09587), with shrinkage.
func (n *Neighbours) Row(thing int32) []float64 {
	if int(thing) >= len(n.sessions) {
		return nil
	}
	return n.get(thing, func() []float64 {
		row := make([]float64, len(n.sessions))
		others, counts := n.together.Row(thing)
		for k, j := range others {
			row[j] = counts[k] / (math.Sqrt(n.sessions[thing]*n.sessions[j]) + shrinkage)
		}
		row[thing] = 1
		return row
	})
}
