package outbox

import (
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// A column or an index of the shop's with a name of keyfold's is refused before the table
// is changed: keyfold would read the one as its own, and do without the other.
//
// Promise(outbox/adopt-names): A table whose columns, indexes or marks collide with keyfold's is
// refused before it is changed, with the names and the number of rows.
func TestAdoptRefusesNames(t *testing.T) {
	for _, column := range []string{"shard INT NOT NULL DEFAULT 900", "attempts VARCHAR(5) NOT NULL DEFAULT 'a'", "body VARCHAR(20)", "message_id VARCHAR(36)"} {
		name, _, _ := strings.Cut(column, " ")
		t.Run(name, func(t *testing.T) {
			onShops(t, func(t *testing.T, db *Database) {
				exec(t, db, "ALTER TABLE user_interactions ADD COLUMN "+column)
				_, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
				must.Fault(t, err, reasonSchema, "nothing was changed", name)
				unchanged(t, db)
			})
		})
	}
	for _, database := range []string{"postgres", "sqlite"} { // whose names of indexes are the schema's
		t.Run("index "+database, func(t *testing.T) {
			t.Parallel()
			db := shopDatabase(t, database)
			exec(t, db, shopTables[database])
			exec(t, db, "CREATE TABLE mails (n INT)")
			exec(t, db, "CREATE INDEX idx_unsent ON mails (n)")
			_, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
			must.Fault(t, err, reasonSchema, "nothing was changed", "idx_unsent")
			unchanged(t, db)
		})
	}
}

func unchanged(t *testing.T, db *Database) {
	t.Helper()
	if _, err := db.pool.Exec("SELECT registered FROM user_interactions"); err == nil {
		t.Error("the table was changed")
	}
}

// A mark that is neither 0 nor 1 would make a row that is neither sent nor unsent.
//
// Promise(outbox/adopt-names)
func TestAdoptRefusesMarks(t *testing.T) {
	for database, marks := range map[string][]string{"mariadb": {"2"}, "sqlite": {"2", "'false'", "''"}} {
		for _, mark := range marks {
			t.Run(database+mark, func(t *testing.T) {
				t.Parallel()
				db := shopDatabase(t, database)
				exec(t, db, shopTables[database])
				exec(t, db, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, processed_to_queue) "+
					"VALUES (7, 'product_view', 1, '2026-02-10 14:30:00', "+mark+")")
				_, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
				must.Fault(t, err, reasonSchema, "nothing was changed", "processed_to_queue", "1 row(s)")
				unchanged(t, db)
				exec(t, db, "UPDATE user_interactions SET processed_to_queue = NULL")
				_, err = db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
				must.OK(t, err)
			})
		}
	}
}

// A default that a strict server refuses stands in tables of many shops.
//
// Promise(outbox/adopt-zero-dates): A table with zero dates is taken over; its rows are published, and
// a backfill takes them as ones of long ago.
func TestAdoptATableWithZeroDates(t *testing.T) {
	db := shopDatabase(t, "mariadb")
	conn, err := db.pool.Conn(t.Context())
	must.OK(t, err)
	defer conn.Close()
	for _, statement := range []string{
		"SET SESSION sql_mode = ''",
		strings.NewReplacer("created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP", "created_at DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00'",
			"occurred_at DATETIME NOT NULL", "occurred_at DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00'").Replace(shopTables["mariadb"]),
		"INSERT INTO user_interactions (user_id, event_type, product_id) VALUES (7, 'product_view', 1)",
		"INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) VALUES (7, 'product_view', 1, '2026-02-10 14:30:00')",
	} {
		_, err := conn.ExecContext(t.Context(), statement)
		must.OK(t, err)
	}
	_, err = db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
	must.OK(t, err)
	must.OK(t, db.Setup(t.Context(), SetupOptions{}))
	b := &broker{}
	running(t, NewRelay(db, b, brisk(), quiet))
	drained(t, db)
	b.expectAll(t, 1)
	if failed := backlog(t, db).Failed; failed != 1 {
		t.Errorf("%d rows are set aside, want the one of no time", failed)
	}
}
