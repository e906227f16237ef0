package similar

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// Dense is a space of vectors most of whose components are not zero.
type Dense struct {
	rows
	dimensions int
	candidates int
	vectors    [][]float32 // by thing; nil: none
	inverse    []float64   // 1/length of each
}

// NewDense takes a vector for each thing, nil where it has none, of any length that is
// not zero. The first things are the candidates.
func NewDense(vectors [][]float32, dimensions, candidates int) *Dense {
	d := &Dense{newRows(), dimensions, candidates, vectors, make([]float64, len(vectors))}
	for i, v := range vectors {
		if d.vectors[i] = usable(v, dimensions); d.vectors[i] != nil {
			d.inverse[i] = 1 / math.Sqrt(dot32(v, v))
		}
	}
	return d
}

// usable returns a vector, nil for one that has no direction or another length.
func usable(v []float32, dimensions int) []float32 {
	if len(v) != dimensions {
		return nil
	}
	if square := dot32(v, v); !(square > 0) || math.IsInf(square, 0) {
		return nil
	}
	return v
}

func dot32(x, y []float32) float64 {
	return blas32.DDot(blas32.Vector{N: len(x), Data: x, Inc: 1}, blas32.Vector{N: len(y), Data: y, Inc: 1})
}

// Dimensions is the vectors' length.
func (d *Dense) Dimensions() int { return d.dimensions }

// Has reports whether a thing has a vector.
func (d *Dense) Has(thing int32) bool { return d.vectors[thing] != nil }

// Row returns the cosines to the candidates, [behind] for one without a vector, which puts it
// behind all others.
func (d *Dense) Row(thing int32) []float64 {
	v := d.vectors[thing]
	if v == nil {
		return nil
	}
	return d.get(thing, func() []float64 {
		row := make([]float64, d.candidates)
		for j := range row {
			row[j] = behind
			if y := d.vectors[j]; y != nil {
				row[j] = dot32(v, y) * d.inverse[thing] * d.inverse[j]
			}
		}
		return row
	})
}

// Add adds w times a thing's unit vector.
func (d *Dense) Add(sum []float64, w float64, thing int32) {
	w *= d.inverse[thing]
	for i, x := range d.vectors[thing] {
		sum[i] += w * float64(x)
	}
}

// Dot returns the product with a thing's unit vector.
func (d *Dense) Dot(sum []float64, thing int32) (dot float64) {
	for i, x := range d.vectors[thing] {
		dot += sum[i] * float64(x)
	}
	return dot * d.inverse[thing]
}
