package partitioner

import (
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
)

// BenchmarkStage moves preloaded events of 1,000 users from the common queue into four
// partitions.
func BenchmarkStage(b *testing.B) {
	s := newSite(b)
	const chunk = 1000
	for from := 0; from < b.N; from += chunk {
		var messages []rabbit.Message
		for i := from; i < min(from+chunk, b.N); i++ {
			messages = append(messages, s.foreign(i%1000+1, i))
		}
		s.publish(messages...)
	}
	b.ResetTimer()
	st := s.run()
	must.Hold(b, "all are moved", func() bool { return st.acked() == int64(b.N) })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	if err := st.stop(); err != nil {
		b.Error(err)
	}
}
