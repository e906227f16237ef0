package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/sqltest"

	"keyfold/engine"
)

func TestMain(m *testing.M) {
	if !long {
		_ = flag.Set("rapid.checks", "25") // which package rapid defines
	}
	if _, err := profile.AddEventTypes(shopTypes); err != nil {
		panic(err)
	}
	process.Main(m)
}

// shopTypes are event types of the shops of all tests, beside the four.
var shopTypes = []profile.OwnType{{Name: "outbox_wish", Weight: 0.6}, {Name: "outbox_return", Weight: -1}, {Name: "outbox_question", Phrase: true, Weight: 0.1}}

// long is set for `make soak`: what tests show by volume they show at length.
var long = os.Getenv("KEYFOLD_SOAK") != ""

// volume returns how many there are of what a test shows by volume.
func volume(short, soak int) int {
	if long {
		return soak
	}
	return short
}

var quiet = slog.New(slog.DiscardHandler)

// onEach runs a test on every database there is, side by side.
func onEach(t *testing.T, test func(t *testing.T, db *Database)) {
	for name, ready := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, ready(t))
		})
	}
}

// onSQLite runs a test on an SQLite file, where the SQL of what it shows differs in no database.
func onSQLite(t *testing.T, test func(t *testing.T, db *Database)) { test(t, readySQLite(t)) }

// onServers runs a test on an empty database of every server there is, side by side.
func onServers(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		server := sqltest.Shared(t)
		test(t, server.URL(server.Database(t)))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, postgresURL(t))
	})
}

// exec runs a statement.
func exec(t testing.TB, db *Database, statement string, args ...any) {
	t.Helper()
	must.OK(t, patiently(db, statement, args...))
}

// patiently runs a statement of a shop's. SQLite lets writers wait in no order, and gives one
// up that others have passed for 5 s: it is run again, as often as that takes.
func patiently(db *Database, statement string, args ...any) error {
	for {
		if _, err := db.pool.Exec(statement, args...); err == nil || db.dialect.classify(err) != classCollision {
			return err
		}
	}
}

// postgresURL returns the DATABASE_URL of a new database of the shared server.
func postgresURL(t testing.TB) string {
	server := pgtest.Shared(t)
	return server.URL(server.Database(t, ""))
}

// openAt opens a database and sets it up.
func openAt(t testing.TB, url string) *Database {
	t.Helper()
	db := openOnly(t, url)
	must.OK(t, db.Setup(t.Context(), SetupOptions{}))
	return db
}

func openOnly(t testing.TB, url string) *Database {
	t.Helper()
	db, err := Open(url)
	must.OK(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func storeOn(t testing.TB, db *Database, config StoreConfig) *Store {
	t.Helper()
	s := NewStore(db, config)
	t.Cleanup(func() { must.OK(t, s.Close(context.Background())) })
	return s
}

// message is a body's fields, in the specification's order.
type message struct {
	UserID     int32          `json:"user_id"`
	EventType  string         `json:"event_type"`
	Phrase     *string        `json:"search_phrase"`
	ProductID  *int32         `json:"product_id"`
	OccurredAt string         `json:"occurred_at"`
	Metadata   map[string]any `json:"metadata"`
	MessageID  string         `json:"message_id"`
	Version    string         `json:"version"`
}

// entryOf makes an entry of a message, as the ingest API does.
func entryOf(t testing.TB, m message) profile.Entry {
	t.Helper()
	body, err := json.Marshal(m)
	must.OK(t, err)
	event, err := profile.ParseEvent(body, time.Now())
	must.OK(t, err)
	return profile.Entry{Event: event, Body: body}
}

// view makes the nth view of a user, an hour ago and n milliseconds.
func view(t testing.TB, user int32, n int) profile.Entry {
	t.Helper()
	product := int32(n + 1)
	return entryOf(t, message{
		UserID: user, EventType: "product_view", ProductID: &product, Version: "1.0",
		OccurredAt: time.Now().Add(-time.Hour + time.Duration(n)*time.Millisecond).UTC().Format("2006-01-02T15:04:05.000Z"),
		MessageID:  fmt.Sprintf("user %d view %d", user, n),
	})
}

func search(t testing.TB, user int32, phrase, id string) profile.Entry {
	t.Helper()
	return entryOf(t, message{
		UserID: user, EventType: "search", Phrase: &phrase, OccurredAt: "2026-02-10T14:30:00+00:00",
		Metadata: map[string]any{"device": phrase}, MessageID: id, Version: "1.0",
	})
}

func add(t testing.TB, s *Store, entries ...profile.Entry) []bool {
	t.Helper()
	fresh, err := s.Add(t.Context(), entries)
	must.OK(t, err)
	return fresh
}

// broker is a publisher that keeps what it took, in order, and answers as it is
// told.
type broker struct {
	// answer decides on a row; nil takes all.
	answer func(Row) error
	// before runs before each call.
	before func()

	mu    sync.Mutex
	taken []Row
	calls int
}

func (b *broker) Publish(ctx context.Context, rows []Row) []error {
	if b.before != nil {
		b.before()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	errs := make([]error, len(rows))
	for i, row := range rows {
		if b.answer != nil {
			errs[i] = b.answer(row)
		}
		if errs[i] == nil || errors.Is(errs[i], engine.ErrUnknown) {
			b.taken = append(b.taken, row)
		}
	}
	return errs
}

func (b *broker) ids() []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]int64, len(b.taken))
	for i, row := range b.taken {
		ids[i] = row.ID
	}
	return ids
}

// expectOrder checks that, going by first appearances, every user's rows were
// taken in the order of their ids.
func (b *broker) expectOrder(t testing.TB) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	newest, seen := map[int32]int64{}, map[key]bool{}
	for _, row := range b.taken {
		k := key{row.Event.UserID, row.Event.MessageID}
		if seen[k] {
			continue
		}
		seen[k] = true
		if last := newest[k.user]; row.ID < last {
			t.Fatalf("user %d: row %d first came after row %d", k.user, row.ID, last)
		}
		newest[k.user] = row.ID
	}
}

// expectOrderAmongCopies checks what holds for a broker that refuses a row and
// takes the next one: among the copies, each user's rows stand in the order of
// their ids, so that leaving out the others gives that order. Everything must
// have been taken.
func (b *broker) expectOrderAmongCopies(t testing.TB) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := map[int32][]int64{}
	for _, row := range b.taken {
		wanted[row.Event.UserID] = append(wanted[row.Event.UserID], row.ID)
	}
	for user, ids := range wanted {
		slices.Sort(ids)
		wanted[user] = slices.Compact(ids)
	}
	for _, row := range b.taken {
		if ids := wanted[row.Event.UserID]; len(ids) > 0 && ids[0] == row.ID {
			wanted[row.Event.UserID] = ids[1:]
		}
	}
	for user, ids := range wanted {
		if len(ids) > 0 {
			t.Errorf("user %d: no copy of row %d stands behind the earlier rows", user, ids[0])
		}
	}
}

// expectAll checks that so many different events were taken.
func (b *broker) expectAll(t testing.TB, want int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[key]bool{}
	for _, row := range b.taken {
		seen[key{row.Event.UserID, row.Event.MessageID}] = true
	}
	if len(seen) != want {
		t.Errorf("%d events were published, want %d", len(seen), want)
	}
}

// brisk are a relay's settings for tests.
func brisk() RelayConfig {
	return RelayConfig{PollMin: 5 * time.Millisecond, PollMax: 80 * time.Millisecond, HoldMin: 5 * time.Millisecond, HoldMax: 20 * time.Millisecond}
}

// running runs a relay until the function it returns is called.
func running(t testing.TB, r *Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

func backlog(t testing.TB, db *Database) Backlog {
	t.Helper()
	b, err := db.Backlog(context.Background(), 0)
	must.OK(t, err)
	return b
}

// drained waits until nothing waits to be sent.
func drained(t testing.TB, db *Database) {
	t.Helper()
	must.Hold(t, "everything is sent", func() bool { return backlog(t, db).Unsent == 0 })
}

// rowsOf reads every row.
func rowsOf(t testing.TB, db *Database, filter Filter) []Row {
	t.Helper()
	var rows []Row
	for row, err := range db.History(context.Background(), filter, Position{}) {
		must.OK(t, err)
		rows = append(rows, row)
	}
	return rows
}
