package outbox

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// The database gives created_at in UTC to a row of a shop's session, whatever time zone
// that has: how long the row waits, and since when the event is known, go by it.
//
// Promise(outbox/time-zones)
func TestCreatedAtIsUTC(t *testing.T) {
	check := func(t *testing.T, db *Database) {
		t.Helper()
		for _, zone := range []string{"+09:00", "-05:00", "+00:00"} {
			exec(t, db, "DELETE FROM user_interactions")
			insertInZone(t, db, zone)
			oldest := backlog(t, db).Oldest
			if away := time.Duration(engine.Now()-oldest) * time.Millisecond; away.Abs() > 3*time.Hour {
				t.Errorf("in a session at %s, the row was stored at %s, %v ago", zone, oldest.Time(), away)
			}
		}
	}
	onEach(t, check)
	t.Run("adopted", func(t *testing.T) {
		onShops(t, func(t *testing.T, db *Database) {
			_, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
			must.OK(t, err)
			must.OK(t, db.Setup(t.Context(), SetupOptions{}))
			check(t, db)
		})
	})
	// A TIMESTAMP is an instant, whatever the session's time zone.
	for name, kind := range map[string]string{"mariadb": "TIMESTAMP", "postgres": "TIMESTAMPTZ"} {
		t.Run("adopted "+kind, func(t *testing.T) {
			t.Parallel()
			db := shopDatabase(t, name)
			exec(t, db, timesAs(shopTables[name], kind))
			_, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
			must.OK(t, err)
			must.OK(t, db.Setup(t.Context(), SetupOptions{}))
			check(t, db)
		})
	}
}

// insertInZone inserts as a shop's session in a time zone does.
func insertInZone(t *testing.T, db *Database, zone string) {
	t.Helper()
	must.OK(t, db.transact(t.Context(), "insert", func(tx *sql.Tx) error {
		set := map[string]string{MySQL: "SET time_zone = '" + zone + "'", PostgreSQL: "SET LOCAL TIME ZONE INTERVAL '" + zone + "' HOUR TO MINUTE"}
		kind := string(db.words.migrations)
		if statement, ok := set[kind]; ok {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		_, err := tx.Exec("INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) VALUES (1, 'product_view', 1, '2026-02-10 14:30:00')")
		if err == nil && kind == MySQL {
			_, err = tx.Exec("SET time_zone = '+00:00'") // the connection is used again
		}
		return err
	}))
}

// timesAs is a shop's table with times of a type.
func timesAs(table, kind string) string {
	for _, one := range []string{"DATETIME", "TIMESTAMP"} {
		table = strings.ReplaceAll(table, "_at "+one+" ", "_at "+kind+" ")
	}
	return table
}
