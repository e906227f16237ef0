package similar

import "math"

// Sparse is a space of vectors most of whose components are zero, as those of hashed
// features are.
type Sparse struct {
	rows
	dimensions int
	candidates int
	vectors    [][]component // by thing, of unit length; nil: none
	lacking    []int32       // candidates without a vector
	columns    [][]component // by dimension: the candidates that have it
}

// component is a component of a vector or, in a column, that of a candidate.
type component struct {
	index int32
	value float64
}

// NewSparse takes a vector for each thing, nil where it has none. The first things are
// the candidates. It keeps nothing of the vectors.
func NewSparse(vectors [][]float32, dimensions, candidates int) *Sparse {
	s := &Sparse{newRows(), dimensions, candidates, make([][]component, len(vectors)), nil, make([][]component, dimensions)}
	for i, v := range vectors {
		if usable(v, dimensions) != nil {
			s.vectors[i] = unit(v)
		} else if i < candidates {
			s.lacking = append(s.lacking, int32(i))
		}
	}
	for j, v := range s.vectors[:candidates] {
		for _, c := range v {
			s.columns[c.index] = append(s.columns[c.index], component{int32(j), c.value})
		}
	}
	return s
}

func unit(v []float32) (components []component) {
	inverse := 1 / math.Sqrt(dot32(v, v))
	for i, x := range v {
		if x != 0 {
			components = append(components, component{int32(i), float64(x) * inverse})
		}
	}
	return components
}

// Dimensions is the vectors' length.
func (s *Sparse) Dimensions() int { return s.dimensions }

// Has reports whether a thing has a vector.
func (s *Sparse) Has(thing int32) bool { return s.vectors[thing] != nil }

// Row returns the cosines to the candidates, [behind] for one without a vector, which puts it
// behind all others.
func (s *Sparse) Row(thing int32) []float64 {
	v := s.vectors[thing]
	if v == nil {
		return nil
	}
	return s.get(thing, func() []float64 {
		row := make([]float64, s.candidates)
		for _, c := range v {
			for _, of := range s.columns[c.index] {
				row[of.index] += c.value * of.value
			}
		}
		for _, j := range s.lacking {
			row[j] = behind
		}
		return row
	})
}

// Add adds w times a thing's unit vector.
func (s *Sparse) Add(sum []float64, w float64, thing int32) {
	for _, c := range s.vectors[thing] {
		sum[c.index] += w * c.value
	}
}

// Dot returns the product with a thing's unit vector.
func (s *Sparse) Dot(sum []float64, thing int32) (dot float64) {
	for _, c := range s.vectors[thing] {
		dot += sum[c.index] * c.value
	}
	return dot
}
