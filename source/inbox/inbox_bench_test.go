package inbox

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// BenchmarkAdd stores 1000 new events per call, BenchmarkSettle marks them: see
// rows/s.
func BenchmarkAdd(b *testing.B)    { benchmark(b, false) }
func BenchmarkSettle(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, marks bool) {
	const batch = 1000
	in := start(b, filepath.Join(b.TempDir(), "inbox.db"), patient, nil)
	defer in.stop()
	in.ports.Log = slog.New(slog.DiscardHandler)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		arrivals := make([]Arrival, batch)
		for i := range arrivals {
			arrivals[i] = event(n+1, i)
		}
		n++
		if !marks {
			b.StartTimer()
		}
		_, ds, err := in.Add(context.Background(), arrivals)
		must.OK(b, err)
		if marks {
			b.StartTimer()
			settle(ds, engine.Folded)
			in.idle(b)
		}
	}
	b.ReportMetric(float64(n*batch)/b.Elapsed().Seconds(), "rows/s")
}
