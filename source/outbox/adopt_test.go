package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sqltest"
)

// shopTables makes a shop's own table, as the specification has it.
var shopTables = map[string]string{
	"mariadb": `CREATE TABLE user_interactions (
		id INT AUTO_INCREMENT PRIMARY KEY, user_id INT NOT NULL,
		event_type ENUM('search', 'product_view', 'product_click', 'product_purchase'),
		search_phrase VARCHAR(255), product_id INT, occurred_at DATETIME NOT NULL, metadata JSON,
		created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, processed_to_queue BOOLEAN DEFAULT FALSE,
		INDEX idx_user_occurred (user_id, occurred_at DESC), INDEX idx_processed (processed_to_queue, occurred_at)) ENGINE=InnoDB`,
	"sqlite": `CREATE TABLE user_interactions (
		id INTEGER PRIMARY KEY AUTOINCREMENT, user_id INT NOT NULL, event_type VARCHAR(20), search_phrase VARCHAR(255), product_id INT,
		occurred_at DATETIME NOT NULL, metadata JSON, created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, processed_to_queue BOOLEAN DEFAULT FALSE)`,
	"postgres": `CREATE TABLE user_interactions (
		id SERIAL PRIMARY KEY, user_id INT NOT NULL, event_type VARCHAR(20), search_phrase VARCHAR(255), product_id INT,
		occurred_at TIMESTAMP NOT NULL, metadata JSON, created_at TIMESTAMP NOT NULL DEFAULT now(), processed_to_queue BOOLEAN DEFAULT FALSE)`,
}

// onShops runs a test on each database with a shop's own table.
func onShops(t *testing.T, test func(t *testing.T, db *Database)) {
	for name, table := range shopTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := shopDatabase(t, name)
			exec(t, db, table)
			test(t, db)
		})
	}
}

// shopDatabase opens an empty database for a shop's table.
func shopDatabase(t *testing.T, name string) *Database {
	t.Helper()
	return openOnly(t, shopURL(t, name))
}

// shopURL returns the DATABASE_URL of an empty database.
func shopURL(t *testing.T, name string) string {
	t.Helper()
	switch name {
	case "mariadb":
		server := sqltest.Shared(t)
		return server.URL(server.Database(t))
	case "postgres":
		return postgresURL(t)
	default:
		file := filepath.Join(t.TempDir(), "shop.db")
		must.OK(t, os.WriteFile(file, nil, 0o600))
		return "sqlite://" + file
	}
}

// shopHistory fills the shop's table with the events of a day, of which the first ones are
// sent.
func shopHistory(t *testing.T, db *Database, rows, sent int) {
	t.Helper()
	begin := time.Now().Add(-24 * time.Hour)
	must.OK(t, db.transact(t.Context(), "fill", func(tx *sql.Tx) error {
		for first := 0; first < rows; first += 1000 {
			var values []string
			var args []any
			for i := first; i < min(first+1000, rows); i++ {
				values = append(values, "(?, 'product_view', ?, ?, "+map[bool]string{true: "TRUE", false: "FALSE"}[i < sent]+")")
				at := begin.Add(20 * time.Hour * time.Duration(i) / time.Duration(rows))
				args = append(args, i%20+1, i+1, at.UTC().Format(time.DateTime))
			}
			query := "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, processed_to_queue) VALUES " + strings.Join(values, ", ")
			if _, err := tx.Exec(query, args...); err != nil {
				return err
			}
		}
		return nil
	}))
}

// insertPatiently inserts as a shop that tries again while SQLite is locked: an index of a
// million rows is made under one lock.
func insertPatiently(t *testing.T, db *Database, user int32, product int) {
	for {
		_, err := db.pool.Exec("INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) VALUES (?, 'product_view', ?, ?)",
			user, product, time.Now().UTC().Format(time.DateTime))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "SQLITE_BUSY") {
			t.Error(err)
			return
		}
	}
}

// A table is taken over while the shop inserts, by runs that are stopped again and
// again: nothing is lost or doubled, and each user's order is kept.
//
// Promise(outbox/adopt-beside)
func TestAdoptInPlaceBesideTheShop(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		rows, sent := volume(1700, 1_000_000), volume(1600, 990_000)
		shopHistory(t, db, rows, sent)
		must.Fault(t, db.Setup(t.Context(), SetupOptions{}), reasonSchema, "outbox.Adopt")
		stop, inserted := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for tick := time.NewTicker(10 * time.Millisecond); ; n++ {
				select {
				case <-stop:
					tick.Stop()
					inserted <- n
					return
				case <-tick.C:
					insertPatiently(t, db, int32(n%20+1), 2_000_000+n)
				}
			}
		}()
		for kill := range volume(3, 5) { // between chunks, and in their middle
			ctx, cancel := context.WithCancel(t.Context())
			at := int64(1)
			if kill == 0 {
				cancel() // before anything is done
			}
			_, err := db.Adopt(ctx, "user_interactions", AdoptOptions{Progress: func(n int64) {
				if n >= at {
					cancel()
				}
			}})
			cancel()
			if err == nil {
				t.Fatal("a run that is stopped ends well")
			}
			if db.Check(t.Context()) == nil {
				t.Error("a relay could start with half a table")
			}
			if kill > 0 {
				must.Fault(t, db.Setup(t.Context(), SetupOptions{}), reasonSchema, "not finished")
			}
		}
		done, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
		must.OK(t, err)
		if done.After < done.Before {
			t.Errorf("adopted %+v", done)
		}
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		must.OK(t, db.Check(t.Context()))
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		close(stop)
		n := <-inserted
		drained(t, db)
		b.expectAll(t, rows-sent+n)
		b.expectOrder(t)
		all := rowsOf(t, db, Filter{})
		ids, err := collect(t.Context(), db.pool, column[int64], "SELECT COUNT(*) FROM keyfold_event_ids")
		must.OK(t, err)
		if len(all) != rows+n || ids[0] != int64(rows+n) {
			t.Errorf("the history has %d rows and %d ids, want %d", len(all), ids[0], rows+n)
		}
		t.Logf("%d rows, of which %d were inserted meanwhile", rows+n, n)
	})
}

// What the shop has published once more is a duplicate, a row that is no event stays as
// it is, and the rest may be left to a backfill.
func TestAdoptOddRows(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		shopHistory(t, db, 4, 3)
		exec(t, db, "UPDATE user_interactions SET product_id = 1, user_id = 1, occurred_at = '2026-02-10 14:30:00' WHERE id < 3")
		exec(t, db, "UPDATE user_interactions SET product_id = NULL WHERE id = 3")
		done, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{Backfill: true})
		must.OK(t, err)
		if want := (Adopted{Table: "user_interactions", Before: 4, After: 4, Taken: 4, History: 1, Duplicates: 1, NoEvents: 1}); done != want {
			t.Errorf("adopted %+v, want %+v", done, want)
		}
		if backlog := backlog(t, db); backlog.Unsent != 0 || backlog.Backfill != 1 {
			t.Errorf("waiting: %+v", backlog)
		}
		again, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
		if must.OK(t, err); again.Taken != 0 {
			t.Errorf("adopted again %+v", again)
		}
	})
}

// A row whose processed_to_queue is NULL, which the specification's DDL allows, is one that
// the shop has not published: it is published, or left to a backfill.
//
// Promise(outbox/unmarked)
func TestAdoptedNULLsAreUnsent(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		shopHistory(t, db, 6, 2)
		exec(t, db, "UPDATE user_interactions SET processed_to_queue = NULL WHERE id > 4")
		_, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{Backfill: true})
		must.OK(t, err)
		nulls, err := db.countOld(t.Context(), "SELECT COUNT(*) FROM user_interactions WHERE processed_to_queue IS NULL")
		must.OK(t, err)
		if b := backlog(t, db); b.Backfill != 4 || b.Unsent != 0 || nulls != 0 {
			t.Errorf("%d rows are NULL; waiting: %+v", nulls, b)
		}
	})
}

// The shop's own table may keep no milliseconds: what is delivered is history there too.
//
// Promise(outbox/adopt-seconds): Rows copied into a table that keeps seconds are marked by their ids;
// where not all can be marked, nothing is copied.
func TestAdoptAMessengerOutboxIntoSeconds(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		_, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
		must.OK(t, err)
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		exec(t, db, messengerTable)
		const rows = 600
		tx, err := db.pool.Begin()
		must.OK(t, err)
		for i := range rows {
			at := any(nil)
			if i < 500 {
				at = timeText(engine.Now())
			}
			_, err := tx.Exec("INSERT INTO messenger_outbox (id, body, headers, queue_name, delivered_at) VALUES (?, ?, '{}', 'outbox', ?)", i+1, string(view(t, int32(i%20+1), i).Body), at)
			must.OK(t, err)
		}
		must.OK(t, tx.Commit())
		done, err := db.Adopt(t.Context(), adoptByCopy, AdoptOptions{Backfill: true})
		must.OK(t, err)
		if done.Taken != rows || done.History != 500 {
			t.Errorf("adopted %+v", done)
		}
		if b := backlog(t, db); b.Unsent != 0 || b.Backfill != rows-500 {
			t.Errorf("waiting: %+v", b)
		}
	})
}

// What cannot be marked as history is not copied: it would be published again.
//
// Promise(outbox/adopt-seconds)
func TestAdoptAMessengerOutboxThatCannotBeMarked(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		exec(t, db, messengerTable)
		exec(t, db, "INSERT INTO messenger_outbox (id, body, headers, queue_name, delivered_at) VALUES (1, ?, '{}', 'outbox', ?)", string(view(t, 1, 1).Body), timeText(engine.Now()))
		switch db.words.migrations {
		case goose.DialectMySQL:
			exec(t, db, "CREATE TRIGGER later BEFORE INSERT ON user_interactions FOR EACH ROW SET NEW.occurred_at = NEW.occurred_at + INTERVAL 1 DAY")
		case goose.DialectPostgres:
			exec(t, db, "CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.occurred_at := NEW.occurred_at + INTERVAL '1 day'; RETURN NEW; END $$")
			exec(t, db, "CREATE TRIGGER later BEFORE INSERT ON user_interactions FOR EACH ROW EXECUTE FUNCTION later()")
		default:
			exec(t, db, "CREATE TRIGGER later AFTER INSERT ON user_interactions BEGIN UPDATE user_interactions SET occurred_at = datetime(occurred_at, '+1 day') WHERE id = NEW.id; END")
		}
		_, err := db.Adopt(t.Context(), adoptByCopy, AdoptOptions{})
		if err == nil || !strings.Contains(err.Error(), "trigger") {
			t.Errorf("a copy that cannot be marked: %v", err)
		}
		if n, err := db.Count(t.Context(), Filter{}); n != 0 || err != nil {
			t.Errorf("%d rows are copied, %v", n, err)
		}
	})
}

const messengerTable = "CREATE TABLE messenger_outbox (id BIGINT PRIMARY KEY, body TEXT NOT NULL, headers TEXT NOT NULL, queue_name VARCHAR(190) NOT NULL, " +
	"created_at TIMESTAMP, available_at TIMESTAMP, delivered_at TIMESTAMP NULL)"

// The rows of a messenger_outbox are copied once each, also by runs that are stopped.
func TestAdoptAMessengerOutbox(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		exec(t, db, messengerTable)
		const rows = 600
		tx, err := db.pool.Begin()
		must.OK(t, err)
		for i := range rows {
			at := any(nil)
			if i < 350 {
				at = timeText(engine.Now())
			}
			body := string(view(t, int32(i%20+1), i).Body)
			if i%100 == 99 {
				body = fmt.Sprintf(`O:36:"Symfony\Component\Messenger\Envelope":%d`, i)
			}
			_, err := tx.Exec("INSERT INTO messenger_outbox (id, body, headers, queue_name, delivered_at) VALUES (?, ?, '{}', 'outbox', ?)", i+1, body, at)
			must.OK(t, err)
		}
		must.OK(t, tx.Commit())
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := db.Adopt(ctx, "messenger_outbox", AdoptOptions{Progress: func(int64) { cancel() }}); err == nil {
			t.Error("a run that is stopped ends well")
		}
		rest, err := db.Adopt(t.Context(), "messenger_outbox", AdoptOptions{})
		must.OK(t, err)
		if rest.Taken != 100 || rest.NoEvents != 1 {
			t.Errorf("the rest is %+v", rest)
		}
		again, err := db.Adopt(t.Context(), "messenger_outbox", AdoptOptions{})
		must.OK(t, err)
		if again.Duplicates != 594 || again.History != 0 || again.NoEvents != 6 {
			t.Errorf("once more is %+v", again)
		}
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		b.expectAll(t, 247)
		b.expectOrder(t)
		if n := len(rowsOf(t, db, Filter{})); n != 594 {
			t.Errorf("%d rows", n)
		}
	})
	if err := CheckAdopt("shop_events"); err == nil {
		t.Error("another table is taken over")
	} else {
		must.Fault(t, err, reasonSchema, "RENAME TO user_interactions")
	}
}
