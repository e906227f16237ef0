package outbox

import (
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// inZone is set in the process that [TestTimesInAnotherZone] starts, to the URLs of empty
// databases for zoneTables.
const inZone = "KEYFOLD_TEST_IN_ZONE"

// zoneTables are databases with the type that times have there.
var zoneTables = [][2]string{
	{"mariadb", "DATETIME(3)"}, {"mariadb", "TIMESTAMP(3)"}, {"postgres", "TIMESTAMP"}, {"postgres", "TIMESTAMPTZ"}, {"sqlite", "DATETIME"},
}

// Times are UTC whatever the time zone of the process and of the database, in tables of
// the shop's whose times have a zone too: two instants of the hour that comes twice stay
// two events, with the ids of their instants, and what is posted stands at its instant.
//
// Promise(outbox/time-zones): In any time zone of process, session or database an event occurs at its
// instant in row, message and id.
func TestTimesInAnotherZone(t *testing.T) {
	if os.Getenv(inZone) == "" {
		self, err := os.Executable()
		must.OK(t, err)
		var urls []string
		for _, table := range zoneTables {
			urls = append(urls, shopURL(t, table[0]))
		}
		run := osexec.CommandContext(t.Context(), self, "-test.run=^TestTimesInAnotherZone$", "-test.count=1")
		run.Env = append(os.Environ(), "TZ=Europe/Berlin", inZone+"="+strings.Join(urls, " "))
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("in Europe/Berlin: %v\n%s", err, out)
		}
		return
	}
	if _, offset := time.Date(2026, 7, 1, 0, 0, 0, 0, time.Local).Zone(); offset != 7200 {
		t.Fatalf("the zone of the process is %d s from UTC", offset)
	}
	urls := strings.Fields(os.Getenv(inZone))
	for i, table := range zoneTables {
		t.Run(strings.Join(table[:], " "), func(t *testing.T) {
			t.Parallel()
			url := urls[i]
			if table[0] == "postgres" {
				exec(t, openOnly(t, url), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''America/New_York''', current_database()); END $$")
				url += "&TimeZone=Asia/Tokyo"
			}
			db := openOnly(t, url)
			exec(t, db, timesAs(shopTables[table[0]], table[1]))
			expectInstants(t, db, table[1])
		})
	}
}

// expectInstants inserts as the shop does before and after a take-over, posts, and
// compares the instants.
func expectInstants(t *testing.T, db *Database, kind string) {
	t.Helper()
	offset := ""
	if kind == "TIMESTAMPTZ" {
		offset = "+00"
	}
	instants := []time.Time{
		time.Date(2025, 10, 26, 0, 30, 0, 250e6, time.UTC), time.Date(2025, 10, 26, 1, 30, 0, 250e6, time.UTC), // 02:30 in Berlin, twice
		time.Date(2025, 11, 2, 5, 30, 0, 500e6, time.UTC), time.Date(2025, 11, 2, 6, 30, 0, 500e6, time.UTC), // 01:30 in New York, twice
	}
	insert := func(user int) {
		t.Helper()
		for _, at := range instants {
			exec(t, db, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) VALUES (?, 'product_view', 9, ?)",
				user, at.Format("2006-01-02 15:04:05.000")+offset)
		}
	}
	insert(1)
	exec(t, db, "UPDATE user_interactions SET processed_to_queue = TRUE")
	insert(2)
	_, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
	must.OK(t, err)
	must.OK(t, db.Setup(t.Context(), SetupOptions{}))
	insert(3)
	posted := view(t, 4, 1)
	add(t, storeOn(t, db, StoreConfig{}), posted)
	b := &broker{}
	running(t, NewRelay(db, b, brisk(), quiet))
	drained(t, db)
	b.expectAll(t, 2*len(instants)+1)
	rows := rowsOf(t, db, Filter{})
	if len(rows) != 3*len(instants)+1 {
		t.Fatalf("the history has %d events", len(rows))
	}
	for i, row := range rows[:3*len(instants)] {
		want := instants[i%len(instants)]
		id := profile.MessageID(row.Event.UserID, profile.ProductView, "9", want.Format(isoTime))
		if row.Event.OccurredAt != engine.MillisOf(want) || row.Event.MessageID != id {
			t.Errorf("row %d occurred at %s, want %s; its id is %s", row.ID, row.Event.OccurredAt.Time(), want, row.Event.MessageID)
		}
		if away := time.Duration(engine.Now()-row.StoredAt) * time.Millisecond; away.Abs() > time.Hour/2 {
			t.Errorf("row %d was stored %v ago", row.ID, away)
		}
	}
	last := rows[len(rows)-1]
	if got := instantOf(t, db, last.ID); got != posted.Event.OccurredAt || last.Event.OccurredAt != got {
		t.Errorf("the posted event stands at %s, and is read as %s; it occurred at %s", got.Time(), last.Event.OccurredAt.Time(), posted.Event.OccurredAt.Time())
	}
	if n, err := db.Count(t.Context(), Filter{From: engine.MillisOf(instants[1]), Until: engine.MillisOf(instants[2])}); n != 3 || err != nil {
		t.Errorf("%d events are in the span of one, %v; want 3", n, err)
	}
}

// instantOf reads when an event occurred by the database's own reckoning.
func instantOf(t *testing.T, db *Database, id int64) engine.Millis {
	t.Helper()
	expression := map[goose.Dialect]string{
		goose.DialectMySQL:    "CAST(UNIX_TIMESTAMP(occurred_at) * 1000 AS SIGNED)",
		goose.DialectPostgres: "(EXTRACT(EPOCH FROM occurred_at) * 1000)::bigint",
		goose.DialectSQLite3:  "CAST(ROUND((julianday(occurred_at) - 2440587.5) * 86400000) AS INTEGER)",
	}[db.words.migrations]
	var at int64
	must.OK(t, db.pool.QueryRow("SELECT "+expression+" FROM user_interactions WHERE id = ?", id).Scan(&at))
	return engine.Millis(at)
}
