package history

import "testing"

func BenchmarkHistory(b *testing.B) {
	w, err := New()
	if err != nil {
		b.Fatal(err)
	}
	number := uint64(0)
	for b.Loop() {
		if _, err := w.Run(number); err != nil {
			b.Fatal(err)
		}
		number++
	}
}
