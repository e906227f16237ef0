package history

import (
	"testing"

	"keyfold/internal/testserver/must"
)

func BenchmarkHistory(b *testing.B) {
	w, err := New()
	must.OK(b, err)
	number := uint64(0)
	for b.Loop() {
		if _, err := w.Run(number); err != nil {
			b.Fatal(err)
		}
		number++
	}
}
