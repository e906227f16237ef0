package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

func TestHistoryOrder(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		var all []profile.Entry
		product := int32(1)
		// Two pages of one user, several events per instant, ids that differ in
		// case and in trailing spaces only.
		for n := range 1200 {
			id := fmt.Sprintf("%c%04d", "aAzZ"[n%4], n/8*8)
			if n%8 > 3 {
				id += " "
			}
			user := int32(2)
			if n%11 == 0 {
				user = int32(n%5*1000 + 1)
			}
			all = append(all, entryOf(t, message{
				UserID: user, EventType: []string{"product_view", "product_click"}[n%2], ProductID: &product, MessageID: fmt.Sprint(user, id), Version: "1.0",
				OccurredAt: time.UnixMilli(1_700_000_000_000 + int64(n*7919%600)).UTC().Format("2006-01-02T15:04:05.000Z"),
			}))
		}
		add(t, s, all...)
		want := slices.Clone(all)
		slices.SortFunc(want, func(a, b profile.Entry) int {
			switch {
			case a.Event.UserID != b.Event.UserID:
				return int(a.Event.UserID - b.Event.UserID)
			case a.Event.Before(&b.Event):
				return -1
			case b.Event.Before(&a.Event):
				return 1
			default:
				return 0
			}
		})
		want = slices.CompactFunc(want, func(a, b profile.Entry) bool { return a.Event.MessageID == b.Event.MessageID })
		got := rowsOf(t, db, Filter{})
		if len(got) != len(want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		sameInteractions(t, db, got)
		for i, row := range got {
			if row.Event != want[i].Event || string(row.Body) != string(want[i].Body) {
				t.Fatalf("row %d is %+v, want %+v", i, row.Event, want[i].Event)
			}
		}
		// From any position on, and after a stop.
		for i := 0; i < len(got); i += volume(299, 7) {
			text, err := json.Marshal(got[i].Position())
			must.OK(t, err)
			var from Position
			must.OK(t, json.Unmarshal(text, &from))
			n := i + 1
			for row, err := range db.History(t.Context(), Filter{}, from) {
				must.OK(t, err)
				if row.Event != got[n].Event {
					t.Fatalf("behind row %d comes %+v, want %+v", n-1, row.Event, got[n].Event)
				}
				if n++; n > i+40 {
					break
				}
			}
			if n != min(len(got), i+41) {
				t.Fatalf("the history ends at row %d of %d", n, len(got))
			}
		}
	})
}

func TestHistoryFilters(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 9, 300)
		_, err := db.pool.Exec("UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = created_at WHERE id % 3 = 0")
		must.OK(t, err)
		all := rowsOf(t, db, Filter{})
		middle := all[len(all)/2].Event.OccurredAt
		for name, c := range map[string]struct {
			filter Filter
			picks  func(Row) bool
		}{
			"user":     {Filter{UserID: 4}, func(r Row) bool { return r.Event.UserID == 4 }},
			"nobody":   {Filter{UserID: 400}, func(Row) bool { return false }},
			"type":     {Filter{Type: profile.Search}, func(Row) bool { return false }},
			"from":     {Filter{From: middle}, func(r Row) bool { return r.Event.OccurredAt >= middle }},
			"until":    {Filter{Until: middle}, func(r Row) bool { return r.Event.OccurredAt < middle }},
			"sent":     {Filter{Sent: OnlySent}, func(r Row) bool { return r.Sent }},
			"unsent":   {Filter{Sent: OnlyUnsent}, func(r Row) bool { return !r.Sent }},
			"together": {Filter{UserID: 4, Sent: OnlySent, From: middle, Type: profile.ProductView}, func(r Row) bool { return r.Event.UserID == 4 && r.Sent && r.Event.OccurredAt >= middle }},
		} {
			want := 0
			for _, row := range all {
				if c.picks(row) {
					want++
				}
			}
			got := rowsOf(t, db, c.filter)
			if n, err := db.Count(t.Context(), c.filter); err != nil || int(n) != want || len(got) != want {
				t.Errorf("%s: %d rows, %d counted, %v, want %d", name, len(got), n, err, want)
			}
			for _, row := range got {
				if !c.picks(row) {
					t.Errorf("%s: picks %+v", name, row)
				}
			}
		}
	})
}

func TestHistoryGoesOnBehindAnUnreadableRow(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 1, 5)
		_, err := db.pool.Exec("UPDATE user_interactions SET body = 'x' WHERE id = 3")
		must.OK(t, err)
		var good, bad int
		for row, err := range db.History(t.Context(), Filter{}, Position{}) {
			switch {
			case err == nil:
				good++
			case engine.KindOf(err) == engine.Permanent && row.ID == 3 && row.Event.UserID == 1:
				bad++
			default:
				t.Fatal(err)
			}
		}
		if good != 4 || bad != 1 {
			t.Errorf("%d good rows and %d bad ones", good, bad)
		}
	})
}

func TestCleanup(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 5, 500)
		now := engine.Now()
		day := engine.Millis(24 * time.Hour / time.Millisecond)
		// Half are sent: a third of those ten days ago, the others just now.
		_, err := db.pool.Exec("UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = ? WHERE id % 2 = 0", timeText(now))
		must.OK(t, err)
		_, err = db.pool.Exec("UPDATE user_interactions SET sent_at = ?, occurred_at = ? WHERE id % 6 = 0", timeText(now-10*day), timeText(now-11*day))
		must.OK(t, err)
		_, err = db.pool.Exec("UPDATE user_interactions SET created_at = ?", timeText(now-11*day))
		must.OK(t, err)
		// As old, and sent only now: they stay, whatever their age.
		_, err = db.pool.Exec("UPDATE user_interactions SET occurred_at = ? WHERE id % 6 = 2", timeText(now-11*day))
		must.OK(t, err)
		if n, err := db.Cleanup(t.Context(), now-7*day, CleanupOptions{Chunk: 20, DryRun: true}); err != nil || n != 83 {
			t.Errorf("a dry run counts %d rows, %v; want 83", n, err)
		}
		var steps []int64
		n, err := db.Cleanup(t.Context(), now-7*day, CleanupOptions{Chunk: 20, Pause: 1, Progress: func(n int64) { steps = append(steps, n) }})
		if err != nil || n != 83 || len(steps) < 5 || steps[len(steps)-1] != 83 {
			t.Errorf("deleted %d rows in the steps %v, %v; want 83", n, steps, err)
		}
		if n, err := db.Cleanup(t.Context(), now-7*day, CleanupOptions{}); err != nil || n != 0 {
			t.Errorf("the second time: %d, %v", n, err)
		}
		if got := backlog(t, db); got.Unsent != 250 {
			t.Errorf("%d unsent rows are left, want 250", got.Unsent)
		}
		if n, err := db.Cleanup(t.Context(), now+day, CleanupOptions{Chunk: 7, Pause: 1}); err != nil || n != 250-83 {
			t.Errorf("the others: %d, %v, want %d", n, err, 250-83)
		}
		if got := backlog(t, db); got.Unsent != 250 {
			t.Errorf("%d unsent rows are left, want 250", got.Unsent)
		}
	})
}

// An event whose row was cleaned up is a duplicate when it is added again, also
// while the cleanup is under way.
//
// Promise(outbox/repeated-request)
func TestCleanedUpEventsAreStillDuplicates(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		var all []profile.Entry
		for n := range 210 {
			all = append(all, view(t, int32(n%9+1), n))
		}
		fresh := make([]int, len(all))
		sum := func(got []bool) {
			for i, f := range got {
				if f {
					fresh[i]++
				}
			}
		}
		var cleaned int64
		for range volume(3, 10) {
			sum(add(t, s, all...))
			_, err := db.pool.Exec("UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = created_at WHERE processed_to_queue = FALSE")
			must.OK(t, err)
			done := make(chan error, 1)
			go func() {
				n, err := db.Cleanup(context.Background(), engine.Now()+1000, CleanupOptions{Chunk: 30, Pause: 1})
				cleaned += n
				done <- err
			}()
			for range 3 {
				sum(add(t, s, all...))
			}
			must.OK(t, <-done)
		}
		for i, n := range fresh {
			if n != 1 {
				t.Fatalf("%s was new %d times", all[i].Event.MessageID, n)
			}
		}
		if cleaned != int64(len(all)) {
			t.Errorf("%d rows were cleaned up, want %d", cleaned, len(all))
		}
		if n, err := db.Count(t.Context(), Filter{}); n != int64(len(all)) || err != nil {
			t.Errorf("%d rows are left, %v", n, err)
		}
		other := view(t, 100, 0)
		other.Event.MessageID = all[0].Event.MessageID
		if f := add(t, s, other); !f[0] {
			t.Error("another user's event with a cleaned id is taken for a duplicate")
		}
	})
}

// sameInteractions compares the rows without bodies with a history: all, the first few, and those
// since a time.
func sameInteractions(t *testing.T, db *Database, history []Row) {
	t.Helper()
	want := make([]Interaction, len(history))
	for i := range history {
		e := &history[i].Event
		want[i] = Interaction{e.UserID, e.ProductID, e.OccurredAt}
	}
	read := func(since engine.Millis, most int) (all []Interaction) {
		for i, err := range db.Interactions(t.Context(), since) {
			must.OK(t, err)
			if all = append(all, i); len(all) == most {
				break
			}
		}
		return all
	}
	if got := read(0, -1); !slices.Equal(got, want) {
		t.Errorf("%d interactions, want %d in the order of the history", len(got), len(want))
	}
	if got := read(0, 7); !slices.Equal(got, want[:7]) {
		t.Errorf("the first are %v, want %v", got, want[:7])
	}
	since := want[len(want)/2].OccurredAt
	want = slices.DeleteFunc(want, func(i Interaction) bool { return i.OccurredAt < since })
	if got := read(since, -1); !slices.Equal(got, want) {
		t.Errorf("%d interactions since %d, want %d", len(got), since, len(want))
	}
}
