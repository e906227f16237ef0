package learned

// Matrix is a square matrix most of whose elements are zero.
type Matrix struct {
	start []int // of each row, and the end of the last
	index []int32
	value []float64
}

// Row returns a row's elements: their columns in ascending order, and their values.
func (m *Matrix) Row(i int32) (columns []int32, values []float64) {
	from, to := m.start[i], m.start[i+1]
	return m.index[from:to], m.value[from:to]
}

// Size is the number of rows.
func (m *Matrix) Size() int { return len(m.start) - 1 }

// times sets y to the matrix times x.
func (m *Matrix) times(y, x []float64) {
	for i := range y {
		columns, values := m.Row(int32(i))
		var sum float64
		for k, j := range columns {
			sum += values[k] * x[j]
		}
		y[i] = sum
	}
}
