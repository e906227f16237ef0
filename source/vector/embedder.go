package vector

import "context"

// Embedder makes vectors of text. It is safe for concurrent use.
type Embedder interface {
	// Embed returns one vector of Dimensions components per phrase, aligned
	// with phrases, which are distinct and not blank. The vectors need not be
	// of unit length; they are the caller's to keep, read-only. One text
	// always gives the same vector.
	//
	// An error is the whole call's, typed where it arises: a permanent one
	// says that a phrase among them will never be accepted (the caller asks
	// again in halves until it has found which), a configuration fault names
	// its cure, [engine.ErrAway] says that nothing will be accepted for now,
	// all else may pass. How long the other side asks to be left alone is in
	// a [*PauseError].
	Embed(ctx context.Context, phrases []string) ([][]float32, error)

	// Model names what makes the vectors. Vectors of two models cannot be
	// compared.
	Model() string

	// Dimensions is the number of components of every vector.
	Dimensions() int
}

// Cache keeps raw vectors outside of this process, of one model and one number
// of components. It is an aid: one that is slow, away or broken knows nothing,
// and says so soon. It is safe for concurrent use.
type Cache interface {
	// Get returns the vectors it holds, aligned with phrases, nil for those it
	// does not. They are finite, not zero and of the right length.
	Get(ctx context.Context, phrases []string) [][]float32

	// Put keeps vectors, aligned with phrases, if it can do so soon.
	Put(ctx context.Context, phrases []string, vectors [][]float32)
}
