package learned

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

const (
	spare      = 10 // columns beyond those kept, by which the iteration converges
	iterations = 20
)

// Steps is how often progress is told of.
const Steps = iterations + 1

// Vectors returns a vector for each row of the information, by the eigenvectors with the
// largest positive eigenvalues; nil where there is none, as for a thing that was always
// alone. Components for which there are too few things are zero. progress hears of each
// step; it may be nil.
//
// Source: subspace iteration with a Rayleigh-Ritz step (Halko, Martinsson, Tropp, SIAM
// Review 2011).
func Vectors(ctx context.Context, information *Matrix, components int, progress func(step int)) ([][]float32, error) {
	things := information.Size()
	columns := random(things, min(components+spare, things))
	for step := range iterations {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		multiply(information, columns)
		orthonormalise(columns)
		if progress != nil {
			progress(step + 1)
		}
	}
	vectors := embed(information, columns, components)
	if progress != nil {
		progress(Steps)
	}
	return vectors, ctx.Err()
}

// random returns k columns of the same random numbers each time.
func random(size, k int) [][]float64 {
	source := rand.New(rand.NewPCG(7, 0))
	columns := make([][]float64, k)
	for i := range columns {
		columns[i] = make([]float64, size)
		for j := range columns[i] {
			columns[i][j] = source.NormFloat64()
		}
	}
	return columns
}

// multiply replaces each column by the matrix times it.
func multiply(m *Matrix, columns [][]float64) {
	each(len(columns), func(i int) {
		product := make([]float64, len(columns[i]))
		m.times(product, columns[i])
		columns[i] = product
	})
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

// embed returns the things' vectors, by the eigenvectors within the columns.
func embed(m *Matrix, columns [][]float64, components int) [][]float32 {
	k := len(columns)
	rows := make([][]float64, k)
	each(k, func(j int) {
		y := make([]float64, m.Size())
		m.times(y, columns[j])
		rows[j] = make([]float64, j+1)
		for i := range rows[j] {
			rows[j][i] = floats.Dot(columns[i], y)
		}
	})
	inner := mat.NewSymDense(max(1, k), nil)
	for j, row := range rows {
		for i, x := range row {
			inner.SetSym(i, j, x)
		}
	}
	var eigen mat.EigenSym
	if k == 0 || !eigen.Factorize(inner, true) {
		return make([][]float32, m.Size())
	}
	var basis mat.Dense
	eigen.VectorsTo(&basis)
	return assemble(m, components, k, eigen.Values(nil), basis.At, columns)
}

// assemble makes the vectors of eigenvalues, which ascend, and of their eigenvectors in
// the basis of the columns.
func assemble(m *Matrix, components, k int, values []float64, basis func(j, at int) float64, columns [][]float64) [][]float32 {
	along := make([][]float64, min(components, k))
	each(len(along), func(d int) {
		at := k - 1 - d
		along[d] = make([]float64, m.Size())
		for j, column := range columns {
			floats.AddScaled(along[d], basis(j, at), column)
		}
		floats.Scale(math.Sqrt(max(0, values[at])), along[d])
	})
	vectors := make([][]float32, m.Size())
	for i := range vectors {
		if others, _ := m.Row(int32(i)); len(others) == 0 {
			continue
		}
		v, square := make([]float32, components), 0.0
		for d, x := range along {
			v[d] = float32(x[i])
			square += x[i] * x[i]
		}
		if square > 1e-12 {
			vectors[i] = v
		}
	}
	return vectors
}
