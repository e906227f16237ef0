package outbox

import (
	"fmt"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// An SQLite file without room: a post says so, with its page of the runbook, and is stored once
// there is room.
//
// Promise(security/causes)
func TestSQLiteWithoutRoom(t *testing.T) {
	onSQLite(t, func(t *testing.T, db *Database) {
		db.pool.SetMaxOpenConns(1) // the limit below is its connection's
		limit := func(pages int) { exec(t, db, fmt.Sprintf("PRAGMA max_page_count = %d", pages)) }
		s := storeOn(t, db, StoreConfig{})
		limit(1) // as low as the file's size allows
		stored := 0
		var err error
		for err == nil && stored < 10_000 {
			if _, err = s.Add(t.Context(), []profile.Entry{view(t, 1, stored)}); err == nil {
				stored++
			}
		}
		for _, part := range []string{"SQLite has no room on its disk", "docs/RUNBOOK.md#disk-full"} {
			if err == nil || !strings.Contains(err.Error(), part) || engine.KindOf(err) != engine.Transient {
				t.Fatalf("%q is not in %v", part, err)
			}
		}
		limit(1 << 20)
		_, err = s.Add(t.Context(), []profile.Entry{view(t, 1, stored)})
		must.OK(t, err)
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		b.expectAll(t, stored+1)
	})
}
