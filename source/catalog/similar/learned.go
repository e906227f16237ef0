package similar

import (
	"context"

	"keyfold/source/catalog/learned"
)

// LearnedDimensions is the length of the vectors that are learned from sessions alone.
const LearnedDimensions = 64

// NewLearned learns vectors of the candidates from sessions, each a list of different
// candidates. Other things have none, nor has a candidate that was always alone.
func NewLearned(ctx context.Context, sessions [][]int32, things, candidates, dimensions int) (*Dense, error) {
	information := learned.Information(countPairs(sessions, candidates).Together())
	vectors, err := learned.Vectors(ctx, information, dimensions, nil)
	if err != nil {
		return nil, err
	}
	return NewDense(append(vectors, make([][]float32, things-candidates)...), dimensions, candidates), nil
}

func countPairs(sessions [][]int32, candidates int) *learned.Pairs {
	p := learned.NewPairs(candidates, learned.DefaultPairs)
	for _, session := range sessions {
		p.Add(session)
	}
	return p
}
