package vector

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// HashModel is the model name of [Hash]. A change of any component of any
// text's vector needs another name: stored vectors of the old one would
// otherwise be compared with new ones.
const HashModel = "keyfold-hash-v1"

// Hash is the offline embedder: feature hashing with signs (Weinberger et al.,
// "Feature Hashing for Large Scale Multitask Learning", ICML 2009) of words,
// of the 3- to 5-grams of characters inside them, and of the whole phrase.
//
// It is lexical: similar spelling is near, so that misspellings, plurals and
// shared words are found; synonyms, translations and meanings are not.
//
// Text is lower-cased and its white space collapsed. It is taken as it is
// otherwise: of an accent that is not in Unicode's form C, into which [Phrases]
// brings search phrases, the vector is near the composed one's, not equal.
//
// A text's vector is the same on every machine and with every Go version, as
// far as Unicode's letters, digits and lower cases stay the same for its
// characters. All sums are of integers, so that no order of additions and no
// fused multiplication shows in them.
type Hash struct {
	dimensions int
}

// NewHash returns an embedder of vectors with that many components.
func NewHash(dimensions int) (*Hash, error) {
	if dimensions < 1 || dimensions > profile.MaxDimensions {
		return nil, engine.ConfigurationError("dimensions", fmt.Errorf(
			"Dimensions is %d: set it between 1 and %d", dimensions, profile.MaxDimensions))
	}
	return &Hash{dimensions: dimensions}, nil
}

// Model returns [HashModel].
func (h *Hash) Model() string { return HashModel }

// Dimensions is the number of components of every vector.
func (h *Hash) Dimensions() int { return h.dimensions }

// Embed returns the phrases' vectors, each of unit length up to the rounding
// to float32. Its only error is that ctx has ended.
func (h *Hash) Embed(ctx context.Context, phrases []string) ([][]float32, error) {
	all := make([][]float32, len(phrases))
	f := featureSum{sums: make([]int64, h.dimensions)}
	for i, phrase := range phrases {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		clear(f.sums)
		f.text(phrase)
		all[i] = unit32(f.sums)
	}
	return all, nil
}

// featureSum adds signed features up. Its scratch space serves text after text.
type featureSum struct {
	sums   []int64
	buffer []byte // the feature being hashed
	starts []int  // where the runes of a padded word begin
	words  []string
}

// add hashes one feature into its component: the component follows from the
// hash's high bits, the sign from its lowest.
func (f *featureSum) add(feature []byte, weight int64) {
	sum := xxhash.Sum64(feature)
	i, _ := bits.Mul64(sum, uint64(len(f.sums)))
	if sum&1 != 0 {
		weight = -weight
	}
	f.sums[i] += weight
}

// unit32 normalises in float64 and rounds to float32.
func unit32(sums []int64) []float32 {
	var square float64
	for _, s := range sums {
		// The conversion of the product forbids fusing it with the addition.
		square += float64(float64(s) * float64(s))
	}
	norm := math.Sqrt(square)
	vector := make([]float32, len(sums))
	for i, s := range sums {
		vector[i] = float32(float64(s) / norm)
	}
	return vector
}
