package engine

import "context"

// Resolved is the answer for one key: a unit vector, or why there is none.
// [ErrMissing] means that the key is known to have none.
type Resolved struct {
	Vector []float64
	Err    error
}

// Vectors resolves product ids or search phrases to unit vectors. The answer is
// aligned with keys, which are distinct. Vectors are shared and read-only.
type Vectors[K comparable] interface {
	Resolve(ctx context.Context, keys []K) []Resolved
}
