package engine

import (
	"iter"
	"math"
)

// Pages yields the rows of one page after another. read returns rows whose key is
// above after, and the last one's key; fewer than size are the last ones.
func Pages[T any](size int, read func(after int64) (page []T, last int64, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for after := int64(math.MinInt64); ; {
			page, last, err := read(after)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			after = last
		}
	}
}
