package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// shopInsert runs a shop's INSERT, with the specification's columns alone.
func shopInsert(t testing.TB, db *Database, user int32, kind string, phrase, product any, occurred string, metadata any) {
	t.Helper()
	exec(t, db, "INSERT INTO user_interactions (user_id, event_type, search_phrase, product_id, occurred_at, metadata) VALUES (?, ?, ?, ?, ?, ?)",
		user, kind, phrase, product, occurred, metadata)
}

// recently is a time that no floor is above, in SQL's form.
func recently(n int) string {
	return timeText(engine.MillisOf(time.Now().Add(-time.Hour)) + engine.Millis(n))
}

// A row with the specification's columns alone is published as a whole event, whose id
// is the one that the design fixes, once and in its user's order.
//
// Promise(outbox/shop-insert): A row that a shop inserts with the specification's columns alone is a
// complete event: a relay adds id and body before it publishes.
func TestAShopsInsertIsACompleteEvent(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		shopInsert(t, db, 7, "search", "größe 42 <b>", nil, "2026-02-10 14:30:00.250", `{"device":"mobile"}`)
		shopInsert(t, db, 7, "product_view", nil, 789, "2026-02-10 14:30:01", `[]`)
		shopInsert(t, db, 8, "product_purchase", nil, 5, "2026-02-10 14:30:02.5", nil)
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		b.expectAll(t, 3)
		b.expectOrder(t)
		bodies := map[int32][]string{}
		for _, row := range b.taken {
			if row.Event.MessageID == "" || row.messageID != row.Event.MessageID {
				t.Errorf("row %d has the id %q and its event %q", row.ID, row.messageID, row.Event.MessageID)
			}
			bodies[row.Event.UserID] = append(bodies[row.Event.UserID], string(row.Body))
		}
		id := profile.MessageID(7, profile.Search, "größe 42 <b>", "2026-02-10T14:30:00.250+00:00")
		event, err := profile.ParseEvent([]byte(bodies[7][0]), time.Now())
		must.OK(t, err)
		if event.MessageID != id || event.Phrase != "größe 42 <b>" || event.ProductID != 0 || !strings.Contains(bodies[7][0], `"metadata":{"device"`) {
			t.Errorf("the search is published as %s, want the id %s", bodies[7][0], id)
		}
		if want := `"product_id":789,"occurred_at":"2026-02-10T14:30:01.000+00:00","metadata":null,"message_id":"` +
			profile.MessageID(7, profile.ProductView, "789", "2026-02-10T14:30:01.000+00:00") + `","version":"1.0"}`; !strings.HasSuffix(bodies[7][1], want) {
			t.Errorf("the view is published as %s, want %s", bodies[7][1], want)
		}
		for _, row := range rowsOf(t, db, Filter{}) {
			if !row.Sent || !row.registered {
				t.Errorf("row %d: sent %t, registered %t", row.ID, row.Sent, row.registered)
			}
		}
	})
}

// The default of a shard is the slot of the user, as Go computes it.
//
// Promise(outbox/shop-insert)
func TestTheDatabaseComputesTheShard(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		users := []int32{1, 2, 3, 63, 64, 65, 12345, 1<<31 - 1, 0, -1}
		for _, user := range users {
			shopInsert(t, db, user, "product_view", nil, 1, recently(0), nil)
		}
		for _, user := range users {
			shard, err := collect(t.Context(), db.pool, column[int], "SELECT shard FROM user_interactions WHERE user_id = ?", user)
			if err != nil || len(shard) != 1 || shard[0] != engine.SlotOf(user) {
				t.Errorf("user %d has the shard %v, %v; want %d", user, shard, err, engine.SlotOf(user))
			}
		}
	})
}

// A repeated id never fails a shop's INSERT: the first row is the event, the others are
// marked. It makes no difference which door they came through.
//
// Promise(outbox/repeated-row): A shop's INSERT that repeats an id succeeds; the row is marked as a
// duplicate and not published.
func TestARepeatedRowIsADuplicate(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		shopInsert(t, db, 1, "product_view", nil, 5, "2026-02-10 14:30:00", nil)
		shopInsert(t, db, 1, "product_view", nil, 5, "2026-02-10 14:30:00.000", nil)
		_, err := db.pool.Exec("INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, message_id) VALUES (1, 'product_view', 6, '2026-02-10 14:30:00', 'a'), (1, 'product_view', 7, '2026-02-10 14:30:00', 'a')")
		must.OK(t, err)
		add(t, s, search(t, 1, "shoes", "posted"))
		_, err = db.pool.Exec("INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, message_id) VALUES (1, 'product_view', 6, '2026-02-10 14:30:00', 'posted')")
		must.OK(t, err)
		b := &broker{}
		r := NewRelay(db, b, brisk(), quiet)
		running(t, r)
		drained(t, db)
		b.expectAll(t, 3)
		if n := r.Stats.Duplicates.Load(); n != 3 {
			t.Errorf("%d duplicates, want 3", n)
		}
		shopInsert(t, db, 1, "product_view", nil, 5, "2026-02-10 14:30:00", nil)
		must.Hold(t, "the repeated row is marked", func() bool {
			n, err := db.countOld(t.Context(), "SELECT COUNT(*) FROM user_interactions WHERE duplicate = TRUE AND processed_to_queue = TRUE")
			return err == nil && n == 4
		})
		id := profile.MessageID(1, profile.ProductView, "5", "2026-02-10T14:30:00.000+00:00")
		entry := search(t, 1, "boots", id)
		if fresh := add(t, s, entry); fresh[0] {
			t.Error("a post with the id of a shop's row is new")
		}
		b.expectAll(t, 3)
		if rows := rowsOf(t, db, Filter{}); len(rows) != 3 {
			t.Errorf("the history has %d events, want 3", len(rows))
		}
	})
}

// What is no event is set aside with its reason; its user's other rows go on.
//
// Promise(outbox/no-event): A shop's row that is no event is set aside with the reason; the user's
// other rows go on.
func TestAShopsRowThatIsNoEvent(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		shopInsert(t, db, 1, "product_view", nil, nil, recently(0), nil)
		shopInsert(t, db, 1, "search", nil, 5, recently(1), nil)
		shopInsert(t, db, 0, "product_view", nil, 5, recently(2), nil)
		shopInsert(t, db, 1, "product_view", nil, 5, recently(3), nil)
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		b.expectAll(t, 1)
		failed := failedOf(t, db)
		if len(failed) != 3 {
			t.Fatalf("%d rows are set aside, want 3", len(failed))
		}
		for i, word := range []string{"product_id", "search_phrase", "user_id"} {
			if !strings.Contains(failed[i].Error, word) {
				t.Errorf("row %d is set aside with %q, want a word of %s", failed[i].ID, failed[i].Error, word)
			}
		}
		exec(t, db, "UPDATE user_interactions SET product_id = 9 WHERE id = ?", failed[0].ID)
		if n, err := db.RetryFailed(t.Context(), failed[0].ID); n != 1 || err != nil {
			t.Errorf("%d rows are retried, %v", n, err)
		}
		drained(t, db)
		b.expectAll(t, 2)
	})
}

// Relays that take the shards from each other, and a broker that answers seldom,
// complete each row once and publish each user's in order.
//
// Promise(outbox/shop-insert)
func TestRelaysCompleteBesideEachOther(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		const users, rows = 20, 120
		var mu sync.Mutex
		turn := 0
		b := &broker{answer: func(Row) error {
			mu.Lock()
			defer mu.Unlock()
			if turn++; turn%7 == 0 {
				return engine.ErrUnknown
			}
			return nil
		}}
		for range 3 {
			running(t, NewRelay(db, b, brisk(), quiet))
		}
		var group sync.WaitGroup
		for writer := range 4 {
			group.Go(func() {
				for n := writer; n < rows; n += 4 {
					// Every tenth row repeats its user's one before it.
					at := n
					if n%10 == 9 {
						at = n - 8
					}
					if err := patiently(db, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) VALUES (?, 'product_click', ?, ?)",
						at%users+1, at+1, "2026-02-10 14:30:00"); err != nil {
						t.Errorf("insert: %v", err)
					}
				}
			})
		}
		group.Wait()
		drained(t, db)
		b.expectAll(t, rows-rows/10)
		stored := rowsOf(t, db, Filter{})
		seen := map[key]bool{}
		for _, row := range stored {
			k := key{row.Event.UserID, row.Event.MessageID}
			if seen[k] {
				t.Errorf("%v stands twice in the history", k)
			}
			seen[k] = true
		}
	})
}

// After a prune, an event that occurred before it is refused at every door, and one
// behind it is not; sent rows before it and their ids are gone, unsent ones stay.
//
// Promise(outbox/pruned): An event from before a `history prune` is refused with the reason, by API
// and relay: it may be a repeated one.
func TestPrune(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		old, young := search(t, 1, "shoes", "old"), view(t, 1, 1) // of 2026-02-10 and an hour ago
		waits := search(t, 2, "boots", "waits")
		add(t, s, old, young, waits)
		_, err := db.pool.Exec("UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = created_at WHERE user_id = 1")
		must.OK(t, err)
		floor := engine.MillisOf(time.Now().Add(-2 * time.Hour))
		if n, err := db.Prune(t.Context(), floor, CleanupOptions{DryRun: true}); n != 1 || err != nil {
			t.Errorf("a dry run counts %d rows, %v", n, err)
		}
		if n, err := db.Prune(t.Context(), floor, CleanupOptions{Pause: 1}); n != 1 || err != nil {
			t.Errorf("%d rows are deleted, %v", n, err)
		}
		for _, e := range []profile.Entry{old, waits, search(t, 3, "never seen", "new")} {
			_, err := s.Add(t.Context(), []profile.Entry{view(t, 9, 9), e})
			var rejected *Rejected
			if !errors.As(err, &rejected) || len(rejected.Rejected()) != 1 || engine.ReasonOf(rejected.Rejected()[1]) != reasonBeforeHistory {
				t.Errorf("%s: %v, want the reason %s", e.Event.MessageID, err, reasonBeforeHistory)
			}
		}
		if fresh := add(t, s, young, view(t, 1, 2)); fmt.Sprint(fresh) != "[false true]" {
			t.Errorf("behind the floor, fresh is %v", fresh)
		}
		shopInsert(t, db, 4, "product_view", nil, 5, "2026-02-10 14:30:00", nil)
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		b.expectAll(t, 2) // what waited, and the view behind the floor
		failed := failedOf(t, db)
		if len(failed) != 1 || !strings.Contains(failed[0].Error, "history prune") {
			t.Errorf("set aside: %+v", failed)
		}
		h, err := db.HistoryStats(t.Context())
		if err != nil || h.Floor != floor || h.IDs != 3 || h.Rows != 4 {
			t.Errorf("the history is %+v, %v", h, err)
		}
		lower, err := db.Prune(t.Context(), floor-1000, CleanupOptions{})
		if now, _ := db.Floor(t.Context()); lower != 1 || err != nil || now != floor {
			t.Errorf("an earlier prune deletes %d rows and moves the floor to %d, %v; want the one that was sent meanwhile", lower, now, err)
		}
	})
}

// Posts beside a prune: none that was pruned is new again.
//
// Promise(outbox/pruned)
func TestPruneBesidePosts(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		var all []profile.Entry
		for n := range 100 {
			all = append(all, view(t, int32(n%9+1), n))
		}
		add(t, s, all...)
		_, err := db.pool.Exec("UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = created_at")
		must.OK(t, err)
		times := make([]engine.Millis, len(all))
		for i := range all {
			times[i] = all[i].Event.OccurredAt
		}
		slices.Sort(times)
		floor := times[len(times)/2]
		done := make(chan error, 1)
		go func() {
			_, err := db.Prune(context.Background(), floor, CleanupOptions{Chunk: 5, Pause: 1})
			done <- err
		}()
		for range 3 {
			for i := range all {
				fresh, err := s.Add(t.Context(), all[i:i+1])
				if err == nil && fresh[0] {
					t.Fatalf("%s is new again", all[i].Event.MessageID)
				}
				if err != nil && engine.KindOf(err) != engine.Permanent {
					t.Fatal(err)
				}
			}
		}
		must.OK(t, <-done)
	})
}

// A history whose bodies were freed is the history it was: what profiles are made of.
func TestHistoryOutlivesACleanup(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		var all []profile.Entry
		for n := range 60 {
			all = append(all, view(t, int32(n%5+1), n), search(t, int32(n%5+1), fmt.Sprint("phrase ", n), fmt.Sprint("s", n)))
		}
		add(t, s, all...)
		shopInsert(t, db, 3, "search", "by the shop", nil, "2026-02-10 14:30:00.250", nil)
		running(t, NewRelay(db, &broker{}, brisk(), quiet))
		drained(t, db)
		before := rowsOf(t, db, Filter{})
		if n, err := db.Cleanup(t.Context(), engine.Now()+1000, CleanupOptions{Chunk: 50, Pause: 1}); n != 121 || err != nil {
			t.Errorf("%d rows are freed, %v; want 121", n, err)
		}
		after := rowsOf(t, db, Filter{})
		if len(before) != 121 || len(after) != len(before) {
			t.Fatalf("%d events before and %d after, want 121", len(before), len(after))
		}
		for i := range after {
			if after[i].Event != before[i].Event || !after[i].Sent {
				t.Errorf("%+v has become %+v", before[i].Event, after[i].Event)
			}
		}
		if n, err := db.countOld(t.Context(), "SELECT COUNT(*) FROM user_interactions WHERE body IS NOT NULL"); n != 0 || err != nil {
			t.Errorf("%d bodies are left, %v", n, err)
		}
	})
}

// A row that another relay has completed meanwhile is read again, and with it the later
// rows of its user: none of them goes before it.
func TestARowThatAnotherRelayCompleted(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		for n := range 2 {
			shopInsert(t, db, 1, "product_view", nil, n+1, recently(n), nil)
		}
		r := NewRelay(db, &broker{}, brisk(), quiet)
		rows, err := collect(t.Context(), db.pool, scanStored, "SELECT "+rowColumns+" FROM user_interactions ORDER BY id")
		must.OK(t, err)
		other := newCompletion()
		must.OK(t, db.transact(t.Context(), "complete", func(tx *sql.Tx) error { return db.complete(t.Context(), tx, []int64{rows[0].ID}, &other) }))
		if whole, resolved, err := r.complete(t.Context(), db.pool, rows); len(whole) != 0 || resolved != 0 || err != nil || len(other.entries) != 1 {
			t.Errorf("%d rows may be published, %d are resolved, %v; another relay completed %d", len(whole), resolved, err, len(other.entries))
		}
		rows, err = collect(t.Context(), db.pool, scanStored, "SELECT "+rowColumns+" FROM user_interactions ORDER BY id")
		must.OK(t, err)
		whole, resolved, err := r.complete(t.Context(), db.pool, rows)
		if must.OK(t, err); resolved != 0 || len(whole) != 2 || whole[0].ID > whole[1].ID {
			t.Errorf("read again: %d rows, %d resolved", len(whole), resolved)
		}
	})
}
