package outbox

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/sqltest"
)

// TestAcknowledgedRowsOutliveAKill kills the server with SIGKILL while requests
// are stored and relayed: every Add that was answered is there afterwards, and
// every row is sent.
//
// Promise(outbox/durable-notes): Rows are published behind a durable note; notes and marks name rows
// by message_id too, as ids may be given away again after a kill.
// Promise(outbox/stored)
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
	for user := range int32(8) {
		senders.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				e := view(t, user+1, n)
				_, err := s.Add(ctx, []profile.Entry{e})
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
	for range volume(1, 10) {
		before := count()
		must.Hold(t, "requests are stored", func() bool { return count() > before+100 })
		time.Sleep(rand.N(50 * time.Millisecond))
		restart(t)
	}
	before := count()
	must.Hold(t, "requests are stored after the last kill", func() bool { return count() > before+100 })
	cancel()
	senders.Wait()
	// A server may commit an Add that was given up after all the others were sent.
	var rows []Row
	must.Hold(t, "every row is sent, and nothing else", func() bool {
		rows = rowsOf(t, db, Filter{})
		sent := map[int64]bool{}
		for _, id := range b.ids() {
			sent[id] = true
		}
		return len(sent) == len(rows) && backlog(t, db).Unsent == 0
	})
	there := map[string]bool{}
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
}
