package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sqltest"
)

func TestAddIsIdempotent(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		a, b, c := view(t, 1, 1), view(t, 1, 2), view(t, 2, 3)
		for i, step := range []struct {
			entries []profile.Entry
			want    []bool
		}{
			{[]profile.Entry{a}, []bool{true}},
			{[]profile.Entry{a}, []bool{false}},
			{[]profile.Entry{b, a, b, c, c}, []bool{true, false, false, true, false}},
			{[]profile.Entry{c, b, a}, []bool{false, false, false}},
			{nil, nil},
		} {
			if got := add(t, s, step.entries...); fmt.Sprint(got) != fmt.Sprint(step.want) {
				t.Errorf("step %d: fresh is %v, want %v", i, got, step.want)
			}
		}
		if rows := rowsOf(t, db, Filter{}); len(rows) != 3 {
			t.Errorf("%d rows are stored, want 3", len(rows))
		}
	})
}

// TestAddModel compares random requests, made side by side, with a set.
func TestAddModel(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{Committers: 3})
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			requests := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 20), 1, 8), 1, 8).Draw(rt, "requests")
			var (
				group sync.WaitGroup
				mu    sync.Mutex
				fresh = map[string]int{}
				all   = map[string]bool{}
			)
			for _, request := range requests {
				entries := make([]profile.Entry, len(request))
				for i, k := range request {
					entries[i] = view(t, int32(n), k)
					all[entries[i].Event.MessageID] = true
				}
				group.Go(func() {
					got, err := s.Add(t.Context(), entries)
					if err != nil {
						t.Errorf("Add: %v", err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					for i, f := range got {
						if f {
							fresh[entries[i].Event.MessageID]++
						}
					}
				})
			}
			group.Wait()
			for id := range all {
				if fresh[id] != 1 {
					rt.Fatalf("%s was new %d times", id, fresh[id])
				}
			}
			if rows := rowsOf(t, db, Filter{UserID: int32(n)}); len(rows) != len(all) {
				rt.Fatalf("%d rows, want %d", len(rows), len(all))
			}
		})
	})
}

// hostile are texts that break what is not careful.
var hostile = []string{
	"'; DROP TABLE user_interactions; --", `\`, `\'`, `\\'`, `"`, "`", "%", "_", "\x1a", "\b\n\r\t", "?", "??", "$1", ":a", "{{exact}}",
	"' OR '1'='1", "/* */", "--", "#", "😀", "👩‍👩‍👧", "ß", "ſ", "İ", "\u200b", "\ufeff", "\u202e", "\ufffd", "\uffff", "\U0010ffff",
	"a", "A", "a ", " a", "a  ", "á", "a\u0301", "\x7f", "ａ", "null", "0", "0x41", "1e400",
	strings.Repeat("😀", 255), strings.Repeat("'", 255), strings.Repeat(`\`, 255), strings.Repeat("é ", 127) + " ",
}

func TestHostileTextsRoundTrip(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		want := map[string]profile.Entry{}
		var all []profile.Entry
		for i, text := range hostile {
			id := text
			if runes := []rune(text); len(runes) > profile.MaxMessageRunes {
				id = string(runes[:profile.MaxMessageRunes])
			}
			phrase := text
			if strings.TrimSpace(phrase) == "" {
				phrase = "x" + phrase
			}
			e := search(t, int32(i+1), phrase, id)
			want[id] = e
			all = append(all, e)
		}
		if len(want) != len(hostile) {
			t.Fatal("the corpus has one id twice")
		}
		for i, f := range add(t, s, all...) {
			if !f {
				t.Errorf("%q was taken for another id", all[i].Event.MessageID)
			}
		}
		for i, f := range add(t, s, all...) {
			if f {
				t.Errorf("%q is new the second time", all[i].Event.MessageID)
			}
		}
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		if len(b.taken) != len(want) {
			t.Fatalf("%d rows were published, want %d", len(b.taken), len(want))
		}
		for _, row := range b.taken {
			e := want[row.Event.MessageID]
			if string(row.Body) != string(e.Body) || row.Event != e.Event {
				t.Errorf("%q came back as %s, want %s", row.Event.MessageID, row.Body, e.Body)
			}
		}
		expectColumns(t, db, want)
	})
}

// expectColumns compares the columns beside the body.
func expectColumns(t *testing.T, db *Database, want map[string]profile.Entry) {
	t.Helper()
	rows, err := db.pool.Query("SELECT user_id, event_type, search_phrase, product_id, occurred_at, metadata, message_id, shard, processed_to_queue FROM user_interactions")
	must.OK(t, err)
	defer rows.Close()
	for rows.Next() {
		var (
			user, shard        int32
			kind, occurred, id string
			phrase, metadata   sql.NullString
			product            sql.NullInt32
			sentColumn         bool
			parsed             map[string]string
		)
		must.OK(t, rows.Scan(&user, &kind, &phrase, &product, &occurred, &metadata, &id, &shard, &sentColumn))
		e := want[id].Event
		if e.UserID != user || e.Type.String() != kind || e.Phrase != phrase.String || product.Valid || timeText(e.OccurredAt) != occurred {
			t.Errorf("%q: columns are %d %s %q %v %s", id, user, kind, phrase.String, product, occurred)
		}
		if err := json.Unmarshal([]byte(metadata.String), &parsed); err != nil || parsed["device"] != e.Phrase {
			t.Errorf("%q: metadata is %q", id, metadata.String)
		}
		if int(shard) != engine.SlotOf(user) || !sentColumn {
			t.Errorf("%q: shard %d, processed_to_queue %v", id, shard, sentColumn)
		}
	}
	must.OK(t, rows.Err())
}

func TestWhatNeverFitsIsRefused(t *testing.T) {
	good := view(t, 1, 1)
	change := func(f func(*profile.Entry)) profile.Entry {
		e := profile.Entry{Event: good.Event, Body: []byte(string(good.Body))}
		f(&e)
		return e
	}
	bad := map[string]profile.Entry{
		"year 999":       change(func(e *profile.Entry) { e.Event.OccurredAt = engine.Earliest - 1 }),
		"NUL in id":      change(func(e *profile.Entry) { e.Event.MessageID = "a\x00b" }),
		"no id":          change(func(e *profile.Entry) { e.Event.MessageID = "" }),
		"long id":        change(func(e *profile.Entry) { e.Event.MessageID = strings.Repeat("é", 129) }),
		"id not UTF-8":   change(func(e *profile.Entry) { e.Event.MessageID = "\xff" }),
		"NUL in phrase":  change(func(e *profile.Entry) { e.Event.Phrase = "\x00" }),
		"long phrase":    change(func(e *profile.Entry) { e.Event.Phrase = strings.Repeat("😀", 256) }),
		"no type":        change(func(e *profile.Entry) { e.Event.Type = 0 }),
		"no user":        change(func(e *profile.Entry) { e.Event.UserID = 0 }),
		"body not JSON":  change(func(e *profile.Entry) { e.Body = []byte("{") }),
		"body not UTF-8": change(func(e *profile.Entry) { e.Body = []byte("{\"a\":\"\xff\"}") }),
	}
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		for name, e := range bad {
			_, err := s.Add(t.Context(), []profile.Entry{good, e})
			if engine.KindOf(err) != engine.Permanent {
				t.Errorf("%s: %v, want a permanent error", name, err)
			}
		}
		if rows := rowsOf(t, db, Filter{}); len(rows) != 0 {
			t.Errorf("%d rows of refused requests are stored", len(rows))
		}
		e := change(func(e *profile.Entry) { e.Event.OccurredAt = engine.Earliest })
		if f := add(t, s, e); !f[0] {
			t.Error("the year 1000 is refused")
		}
	})
}

func TestMetadataBeyondColumns(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 30) + "1" + strings.Repeat("}", 30)
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		for i, metadata := range []string{`{"x":1e400}`, `{"x":-1e-400}`, `{"x":123456789012345678901234567890}`, deep, `{}`, `null`, `{"":""}`} {
			body := fmt.Sprintf(`{"user_id":1,"event_type":"product_view","product_id":1,"occurred_at":"2026-01-01T00:00:00Z","metadata":%s,"message_id":"m%d"}`, metadata, i)
			event, err := profile.ParseEvent([]byte(body), farFuture)
			must.OK(t, err)
			add(t, s, profile.Entry{Event: event, Body: []byte(body)})
			rows := rowsOf(t, db, Filter{})
			if got := string(rows[len(rows)-1].Body); got != body {
				t.Errorf("stored %s, want %s", got, body)
			}
		}
	})
}

// TestABadRowRefusesOnlyItsRequest lets the database itself refuse a row, in a
// transaction it shares with others.
//
// Promise(outbox/rejected-entries)
func TestABadRowRefusesOnlyItsRequest(t *testing.T) {
	onServers(t, func(t *testing.T, url string) {
		db := withUsers(t, url, 1, 2, 3)
		must.OK(t, db.Setup(t.Context(), SetupOptions{ForeignKeys: true})) // idempotent
		s := storeOn(t, db, StoreConfig{Committers: 1})
		group := groupOf(t, view(t, 1, 1), view(t, 2, 1), view(t, 3, 1), view(t, 4, 1)) // user 4 does not exist
		s.commit(group)
		for i, r := range group {
			err := <-r.answer
			if i < 3 && (err != nil || !r.rows[0].fresh) {
				t.Errorf("user %d: %v", i+1, err)
			}
			if i == 3 && engine.KindOf(err) != engine.Permanent {
				t.Errorf("an event of an unknown user: %v, want a permanent error", err)
			}
		}
		if rows := rowsOf(t, db, Filter{}); len(rows) != 3 {
			t.Errorf("%d rows are stored, want 3", len(rows))
		}
		exec(t, db, "DELETE FROM users WHERE id = 1")
		exec(t, db, "DELETE FROM products WHERE id = 2")
		rows := rowsOf(t, db, Filter{})
		if len(rows) != 2 || rows[0].Event.ProductID != 2 {
			t.Errorf("after the user and the product were deleted: %+v", rows)
		}
	})
}

// groupOf makes a request of each entry.
func groupOf(t *testing.T, entries ...profile.Entry) (group []*request) {
	t.Helper()
	for i := range entries {
		row, err := rowOf(&entries[i], engine.Now())
		must.OK(t, err)
		group = append(group, &request{ctx: t.Context(), rows: []newRow{row}, answer: make(chan error, 1)})
	}
	return group
}

// withUsers sets up a database whose events refer to users of these ids, and to
// products.
func withUsers(t *testing.T, url string, ids ...int32) *Database {
	t.Helper()
	db := openOnly(t, url)
	exec(t, db, "CREATE TABLE users (id INT PRIMARY KEY, seen INT NOT NULL DEFAULT 0)")
	exec(t, db, "CREATE TABLE products (id INT PRIMARY KEY)")
	products := make([]int, 2000)
	for i := range products {
		products[i] = i + 1
	}
	exec(t, db, "INSERT INTO products VALUES "+strings.Repeat("(?), ", len(products)-1)+"(?)", anyOf(products)...)
	for _, id := range ids {
		exec(t, db, "INSERT INTO users (id) VALUES (?)", id)
	}
	must.OK(t, db.Setup(t.Context(), SetupOptions{ForeignKeys: true}))
	return db
}

// An error of Add names every entry that the database rejects, and no other.
//
// Promise(outbox/rejected-entries): Events of a request that the database rejects are named; with
// `?partial=true` the others are stored.
func TestRejectedEntriesAreNamed(t *testing.T) {
	onServers(t, func(t *testing.T, url string) {
		db := withUsers(t, url, 1, 2, 3)
		s := storeOn(t, db, StoreConfig{})
		var entries []profile.Entry
		for n := range 1000 {
			user := int32(n%3 + 1)
			if n == 17 || n == 18 || n == 700 {
				user = 4
			}
			entries = append(entries, view(t, user, n))
		}
		_, err := s.Add(t.Context(), entries)
		found, ok := errors.AsType[interface {
			error
			Rejected() map[int]error
		}](err)
		if !ok || engine.KindOf(err) != engine.Permanent {
			t.Fatalf("1000 entries with 3 of an unknown user: %v", err)
		}
		at := slices.Sorted(maps.Keys(found.Rejected()))
		if !slices.Equal(at, []int{17, 18, 700}) {
			t.Errorf("entries %v are rejected", at)
		}
		if n, err := db.Count(t.Context(), Filter{}); n != 0 || err != nil {
			t.Errorf("%d rows of a refused request are stored, %v", n, err)
		}
		good := slices.DeleteFunc(entries, func(e profile.Entry) bool { return e.Event.UserID == 4 })
		for i, fresh := range add(t, s, good...) {
			if !fresh {
				t.Fatalf("entry %d was stored before", i)
			}
		}
	})
}

// Another transaction holds a row of users: an event of that user fails for now,
// those of the others in the same group are stored meanwhile.
//
// Promise(outbox/locked-user): A lock on a row of `users` under `--foreign-keys` costs that user's
// requests a 503 after a second; the others of the group are stored.
func TestALockedUserHoldsUpNobodyElse(t *testing.T) {
	onServers(t, func(t *testing.T, url string) {
		db := withUsers(t, url, 1, 2, 3)
		lock, err := db.pool.Begin()
		must.OK(t, err)
		defer lock.Rollback()
		_, err = lock.Exec("SELECT id FROM users WHERE id = 1 FOR UPDATE")
		must.OK(t, err)
		s := storeOn(t, db, StoreConfig{Committers: 1})
		var entries []profile.Entry
		for i, user := range []int32{2, 1, 3, 1, 1} {
			entries = append(entries, view(t, user, i))
		}
		group := groupOf(t, entries...)
		s.commit(group)
		for i, r := range group {
			err := <-r.answer
			if r.rows[0].userID == 1 {
				if err == nil || engine.KindOf(err) != engine.Transient || errors.Is(err, engine.ErrAway) {
					t.Errorf("request %d of the locked user: %v", i, err)
				}
				continue
			}
			if err != nil || !r.rows[0].fresh {
				t.Errorf("request %d: %v", i, err)
			}
		}
		must.OK(t, lock.Rollback())
		if fresh := add(t, s, view(t, 1, 1), view(t, 2, 0)); !fresh[0] || fresh[1] {
			t.Errorf("after the lock: fresh is %v", fresh)
		}
	})
}

// A server that takes small packets only gets the same rows in more statements.
//
// Promise(outbox/small-packets): A server that takes small packets only gets the same rows in more
// statements.
func TestSmallPackets(t *testing.T) {
	server := sqltest.Shared(t)
	var before int
	must.OK(t, server.Admin().QueryRow("SELECT @@GLOBAL.max_allowed_packet").Scan(&before))
	server.Exec(t, "SET GLOBAL max_allowed_packet = 1048576")
	t.Cleanup(func() { server.Exec(t, "SET GLOBAL max_allowed_packet = ?", before) })
	s := storeOn(t, openAt(t, server.URL(server.Database(t))), StoreConfig{})
	var entries []profile.Entry
	for n := range 400 {
		product := int32(1)
		entries = append(entries, entryOf(t, message{
			UserID: int32(n + 1), EventType: "product_view", ProductID: &product, OccurredAt: "2026-02-10T14:30:00Z",
			Metadata: map[string]any{"page": strings.Repeat(`"`, 2000)}, MessageID: fmt.Sprint(n), Version: "1.0",
		}))
	}
	for i, fresh := range add(t, s, entries...) {
		if !fresh {
			t.Errorf("entry %d is not new", i)
		}
	}
}

// One id of two users is two events; a key of the shop's own that two events
// share is no duplicate, which would be acknowledged and is nowhere.
//
// Promise(outbox/user-and-id): One message id of two users is two events, in SQL as in profiles.
// Promise(outbox/unique-key): An event that a unique key of the shop's own refuses is answered with
// 400, never as a duplicate.
func TestADuplicateIsOfThisUserAndId(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		order := func(user, product int32, id string) profile.Entry {
			return entryOf(t, message{
				UserID: user, EventType: "product_purchase", ProductID: &product,
				OccurredAt: "2026-02-10T14:30:00Z", MessageID: id, Version: "1.0",
			})
		}
		if fresh := add(t, s, order(1, 5, "order-1"), order(2, 5, "order-1"), order(1, 5, "order-1")); fmt.Sprint(fresh) != "[true true false]" {
			t.Errorf("order-1 of two users: fresh is %v", fresh)
		}
		_, err := db.pool.Exec("CREATE UNIQUE INDEX shop ON user_interactions (user_id, product_id, occurred_at)")
		must.OK(t, err)
		fresh, err := s.Add(t.Context(), []profile.Entry{order(3, 1, "a"), order(1, 5, "order-2")})
		if engine.KindOf(err) != engine.Permanent {
			t.Errorf("an event that the shop's key refuses: fresh is %v, %v", fresh, err)
		}
		if fresh := add(t, s, order(1, 5, "order-1"), order(3, 1, "a")); fmt.Sprint(fresh) != "[false true]" {
			t.Errorf("a real duplicate: fresh is %v", fresh)
		}
	})
}

func TestManyRequestsShareTransactions(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{Committers: 1})
		var group sync.WaitGroup
		for user := range int32(64) {
			group.Go(func() {
				for n := range 5 {
					if _, err := s.Add(t.Context(), []profile.Entry{view(t, user+1, n)}); err != nil {
						t.Errorf("Add: %v", err)
					}
				}
			})
		}
		group.Wait()
		if got := s.Stats.Stored.Load(); got != 320 {
			t.Errorf("%d rows were stored, want 320", got)
		}
		if n, timed := s.Stats.Transactions.Load(), s.Stats.transaction.Count(); n != timed {
			t.Errorf("%d transactions, and %d were timed", n, timed)
		}
		if n := s.Stats.Transactions.Load(); n > 200 {
			t.Errorf("320 requests took %d transactions", n)
		}
	})
}

func TestALargeRequestIsOneTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		var entries []profile.Entry
		for n := range 1100 {
			entries = append(entries, view(t, int32(n%7+1), n))
		}
		old := entries[1050]
		add(t, s, old)
		fresh := add(t, s, entries...)
		for i, f := range fresh {
			if f == (i == 1050) {
				t.Fatalf("entry %d: fresh is %v", i, f)
			}
		}
		// Ids follow the order of the request.
		last := map[int32]engine.Millis{}
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		b.expectOrder(t)
		for _, row := range b.taken {
			e := row.Event
			if e.MessageID != old.Event.MessageID && e.OccurredAt < last[e.UserID] {
				t.Fatalf("user %d: %s came after a later one", e.UserID, e.MessageID)
			}
			if e.MessageID != old.Event.MessageID {
				last[e.UserID] = e.OccurredAt
			}
		}
	})
}

func TestAddAfterItsSenderLeft(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Add(ctx, []profile.Entry{view(t, 1, 1)}); err == nil {
			t.Error("Add with an ended context succeeded")
		}
		must.OK(t, s.Close(t.Context()))
		if _, err := s.Add(t.Context(), []profile.Entry{view(t, 1, 1)}); !errors.Is(err, errClosed) {
			t.Errorf("Add after Close: %v", err)
		}
	})
}

// A sender leaves while its request waits for the transaction before it: it was told that
// its events may have been stored, and they are not.
func TestNothingOfASenderThatLeftIsStored(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		left, cancel := context.WithCancel(t.Context())
		var group []*request
		for n, ctx := range []context.Context{left, t.Context()} {
			entry := view(t, int32(n+1), n)
			row, err := rowOf(&entry, engine.Now())
			must.OK(t, err)
			group = append(group, &request{ctx: ctx, rows: []newRow{row}, answer: make(chan error, 1)})
		}
		cancel()
		stays := group[1]
		s.commit(group)
		must.OK(t, <-stays.answer)
		if rows := rowsOf(t, db, Filter{}); len(rows) != 1 || rows[0].Event.UserID != 2 {
			t.Errorf("%d rows are stored, want the one of the sender that stayed", len(rows))
		}
	})
}
