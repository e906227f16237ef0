package outbox

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sqltest"
)

func benchOnEach(b *testing.B, bench func(b *testing.B, db *Database)) {
	b.Run("mariadb", func(b *testing.B) {
		server := sqltest.Shared(b)
		bench(b, openAt(b, server.URL(server.Database(b))))
	})
	b.Run("postgres", func(b *testing.B) {
		bench(b, openAt(b, postgresURL(b)))
	})
	b.Run("sqlite", func(b *testing.B) {
		bench(b, openAt(b, "sqlite://"+filepath.Join(b.TempDir(), "outbox.db")))
	})
}

// BenchmarkAdd is requests of one event, by how many senders wait at once.
func BenchmarkAdd(b *testing.B) {
	benchOnEach(b, func(b *testing.B, db *Database) {
		var n atomic.Int64
		for _, senders := range []int{1, 16, 128} {
			b.Run(fmt.Sprint(senders), func(b *testing.B) {
				s := storeOn(b, db, StoreConfig{})
				b.SetParallelism(senders)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						k := n.Add(1)
						if _, err := s.Add(b.Context(), []profile.Entry{view(b, int32(k%5000+1), int(k))}); err != nil {
							b.Error(err)
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
				b.ReportMetric(float64(b.N)/float64(s.Stats.Transactions.Load()), "rows/tx")
			})
		}
	})
}

// BenchmarkRelay drains a backlog through a broker that confirms after 5 ms, by
// the number of users.
func BenchmarkRelay(b *testing.B) {
	for _, users := range []int{1, 100, 5000} {
		b.Run(fmt.Sprint(users, "users"), func(b *testing.B) {
			benchOnEach(b, func(b *testing.B, db *Database) {
				fill(b, db, users, b.N)
				r := NewRelay(db, &broker{before: func() { time.Sleep(5 * time.Millisecond) }}, RelayConfig{}, quiet)
				b.ResetTimer()
				stop := running(b, r)
				must.Hold(b, "everything is sent", func() bool { return r.Stats.Sent.Load() >= int64(b.N) })
				b.StopTimer()
				stop()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
				b.ReportMetric(float64(b.N)/float64(r.Stats.Batches.Load()), "rows/batch")
			})
		})
	}
}
