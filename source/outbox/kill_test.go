package outbox

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	sqltest "keyfold/bench/testserver/mariadb"
	pgtest "keyfold/bench/testserver/postgres"
	"keyfold/engine"
)

// TestAcknowledgedRowsOutliveAKill kills the server with SIGKILL while requests
// are stored and relayed: every Add that was answered is there afterwards, and
// every row is sent.
func TestAcknowledgedRowsOutliveAKill(t *testing.T) {
	t.Run("mariadb", func(t *testing.T) {
		server := sqltest.Start(t)
		outliveKills(t, server.URL(server.Database(t)), server.Restart)
	})
	t.Run("postgres", func(t *testing.T) {
		server := pgtest.Start(t)
		outliveKills(t, server.URL("postgres"), server.Restart)
	})
}

func outliveKills(t *testing.T, url string, restart func(testing.TB)) {
	t.Helper()
	db := openAt(t, url)
	s := storeOn(t, db, StoreConfig{})
	b := &broker{}
	r := NewRelay(db, b, brisk(), quiet)
	running(t, r)
	var (
		senders sync.WaitGroup
		mu      sync.Mutex
		stored  = map[string]bool{}
	)
	ctx, cancel := context.WithCancel(context.Background())
	for user := range int32(16) {
		senders.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				e := view(t, user+1, n)
				_, err := s.Add(ctx, []engine.Entry{e})
				if err != nil {
					if engine.KindOf(err) != engine.Transient {
						t.Errorf("Add while the server is away: %v", err)
						return
					}
					time.Sleep(10 * time.Millisecond)
					continue
				}
				mu.Lock()
				stored[e.Event.MessageID] = true
				mu.Unlock()
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(stored)
	}
	for range 3 {
		before := count()
		eventually(t, "requests are stored", func() bool { return count() > before+100 })
		time.Sleep(rand.N(50 * time.Millisecond))
		restart(t)
	}
	before := count()
	eventually(t, "requests are stored after the last kill", func() bool { return count() > before+100 })
	cancel()
	senders.Wait()
	drained(t, db)
	there := map[string]bool{}
	rows := rowsOf(t, db, Filter{})
	for _, row := range rows {
		there[row.Event.MessageID] = true
	}
	for id := range stored {
		if !there[id] {
			t.Errorf("%s was acknowledged and is gone", id)
		}
	}
	t.Logf("%d acknowledged, %d stored, %d published", len(stored), len(rows), len(b.ids()))
	b.expectOrder(t)
	b.expectAll(t, len(rows))
}
