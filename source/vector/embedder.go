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
	// its cure, all else may pass.
	Embed(ctx context.Context, phrases []string) ([][]float32, error)

	// Model names what makes the vectors. Vectors of two models cannot be
	// compared.
	Model() string

	// Dimensions is the number of components of every vector.
	Dimensions() int
}
