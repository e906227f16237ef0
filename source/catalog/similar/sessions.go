package similar

import (
	"cmp"
	"math"
	"slices"
)

// pairs counts in how many sessions each two candidates are together.
type pairs struct {
	sessions []float64     // by candidate: how many it is in
	with     [][]component // by candidate: the others, by index, and how often
}

func countPairs(sessions [][]int32, candidates int) pairs {
	p := pairs{make([]float64, candidates), make([][]component, candidates)}
	counts := make([]map[int32]float64, candidates)
	for _, session := range sessions {
		for _, a := range session {
			p.sessions[a]++
			for _, b := range session {
				if a == b {
					continue
				}
				if counts[a] == nil {
					counts[a] = map[int32]float64{}
				}
				counts[a][b]++
			}
		}
	}
	for a, of := range counts {
		for b, n := range of {
			p.with[a] = append(p.with[a], component{b, n})
		}
		slices.SortFunc(p.with[a], func(x, y component) int { return cmp.Compare(x.index, y.index) })
	}
	return p
}

// Neighbours is item kNN: what two products' sessions have in common, with no vectors.
type Neighbours struct {
	pairs
	rows
}

// shrinkage is added to the denominator, so that a product of few sessions is not near
// to another by chance.
const shrinkage = 5

// NewNeighbours learns from sessions, each a list of different candidates.
func NewNeighbours(sessions [][]int32, candidates int) *Neighbours {
	return &Neighbours{countPairs(sessions, candidates), newRows()}
}

// Row returns the sessions in common by the geometric mean of both products' sessions,
// 1 for the product itself, nil for what is no candidate.
//
// Source: the item kNN of Ludewig and Jannach, "Evaluation of Session-based
// Recommendation Algorithms", 2018 (arXiv 1803.09587), with shrinkage.
func (n *Neighbours) Row(thing int32) []float64 {
	if int(thing) >= len(n.with) {
		return nil
	}
	return n.get(thing, func() []float64 {
		row := make([]float64, len(n.with))
		for _, c := range n.with[thing] {
			row[c.index] = c.value / (math.Sqrt(n.sessions[thing]*n.sessions[c.index]) + shrinkage)
		}
		row[thing] = 1
		return row
	})
}
