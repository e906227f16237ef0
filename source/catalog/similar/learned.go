package similar

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

const (
	// LearnedDimensions is the length of the vectors that are learned from sessions.
	LearnedDimensions = 64
	spare             = 10 // columns beyond those kept, by which the iteration converges
	iterations        = 20
)

// NewLearned learns vectors of the candidates from sessions, each a list of different
// candidates: the leading eigenvectors of the positive pointwise mutual information of
// being in one session. Other things have none, nor has a candidate that was always
// alone.
//
// Source: Levy and Goldberg, "Neural Word Embedding as Implicit Matrix Factorization",
// NIPS 2014, with context counts to the power of 0.75 (Levy, Goldberg, Dagan, TACL 2015);
// the eigenvectors by subspace iteration with a Rayleigh-Ritz step (Halko, Martinsson,
// Tropp, SIAM Review 2011).
func NewLearned(sessions [][]int32, things, candidates, dimensions int) *Dense {
	information := mutualInformation(countPairs(sessions, candidates))
	dimensions = min(dimensions, candidates)
	columns := leading(information, min(dimensions+spare, candidates))
	vectors := make([][]float32, things)
	for i, v := range embed(information, columns, dimensions) {
		vectors[i] = v
	}
	return NewDense(vectors, dimensions, candidates)
}

// smoothing is the power of the context counts.
const smoothing = 0.75

// mutualInformation returns the positive pointwise mutual information of each pair, made
// symmetric.
func mutualInformation(p pairs) [][]component {
	sums := make([]float64, len(p.with))
	var total, smooth float64
	for i, of := range p.with {
		for _, c := range of {
			sums[i] += c.value
		}
		total += sums[i]
		smooth += math.Pow(sums[i], smoothing)
	}
	information := make([][]component, len(p.with))
	for i, of := range p.with {
		for _, c := range of {
			j := c.index
			one := math.Log(c.value / (sums[i] * math.Pow(sums[j], smoothing) / smooth))
			other := math.Log(c.value / (sums[j] * math.Pow(sums[i], smoothing) / smooth))
			if v := (one + other) / 2; v > 0 {
				information[i] = append(information[i], component{j, v})
			}
		}
	}
	return information
}

// leading returns an orthonormal basis near the leading eigenvectors, by column.
func leading(matrix [][]component, k int) [][]float64 {
	random := rand.New(rand.NewPCG(7, 0))
	columns := make([][]float64, k)
	for i := range columns {
		columns[i] = make([]float64, len(matrix))
		for j := range columns[i] {
			columns[i][j] = random.NormFloat64()
		}
	}
	for range iterations {
		for i := range columns {
			columns[i] = times(matrix, columns[i])
		}
		orthonormalise(columns)
	}
	return columns
}

func times(matrix [][]component, x []float64) []float64 {
	y := make([]float64, len(matrix))
	for i, row := range matrix {
		for _, c := range row {
			y[i] += c.value * x[c.index]
		}
	}
	return y
}

// orthonormalise makes columns orthonormal by the modified Gram-Schmidt process, twice,
// and zero where they depend on those before.
func orthonormalise(columns [][]float64) {
	for i, x := range columns {
		before := floats.Norm(x, 2)
		for range 2 {
			for _, y := range columns[:i] {
				floats.AddScaled(x, -floats.Dot(x, y), y)
			}
		}
		length := floats.Norm(x, 2)
		if length <= 1e-10*before || length == 0 {
			clear(x)
			continue
		}
		floats.Scale(1/length, x)
	}
}

// embed returns the candidates' vectors, by the eigenvectors with the largest positive
// eigenvalues within the columns; nil for what has none.
func embed(matrix [][]component, columns [][]float64, dimensions int) [][]float32 {
	k := len(columns)
	inner := mat.NewSymDense(k, nil)
	for j := range columns {
		y := times(matrix, columns[j])
		for i := 0; i <= j; i++ {
			inner.SetSym(i, j, floats.Dot(columns[i], y))
		}
	}
	var eigen mat.EigenSym
	vectors := make([][]float32, len(matrix))
	if !eigen.Factorize(inner, true) {
		return vectors
	}
	values := eigen.Values(nil) // ascending
	var basis mat.Dense
	eigen.VectorsTo(&basis)
	for i := range matrix {
		v := make([]float32, dimensions)
		var square float64
		for d := range v {
			at := k - 1 - d
			x := 0.0
			for j := range columns {
				x += columns[j][i] * basis.At(j, at)
			}
			x *= math.Sqrt(max(0, values[at]))
			v[d] = float32(x)
			square += x * x
		}
		if square > 1e-12 && len(matrix[i]) > 0 {
			vectors[i] = v
		}
	}
	return vectors
}
