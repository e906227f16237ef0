package outbox

import (
	"fmt"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// userColumns are types of user_id that a shop's table may have, with values of theirs
// that are no event's user.
var userColumns = map[string]map[string][]string{
	"mariadb": {
		"BIGINT":          {"3480000000", "5000000000", "-5", "-2147483649", "9223372036854775807", "-9223372036854775808"},
		"INT UNSIGNED":    {"3480000000", "4294967295", "0"},
		"BIGINT UNSIGNED": {"3480000000", "9223372036854775808", "18446744073709551615"},
		"DECIMAL(40)":     {"3480000000", "-5000000000", "18446744073709551616", "9999999999999999999999999999999999999999", "-9999999999999999999999999999999999999999"},
	},
	"postgres": {
		"BIGINT":      {"3480000000", "5000000000", "-5", "-2147483649", "9223372036854775807", "-9223372036854775808"},
		"NUMERIC(40)": {"3480000000", "-5000000000", "18446744073709551616", "9999999999999999999999999999999999999999", "-9999999999999999999999999999999999999999", "'NaN'"},
		"SMALLINT":    {"-32768", "0"},
	},
	"sqlite": {
		"INT":     {"3480000000", "5000000000", "4611686018427387904", "9223372036854775807", "-9223372036854775808", "1e300", "-1e300", "2.5", "'x'", "x'00'"},
		"NUMERIC": {"5000000000", "-1e300"},
	},
}

// Of a user_id that no event has, the shop's INSERT succeeds, before and after the table
// is taken over. Such a row is set aside, and those behind it go on.
//
// Promise(outbox/adopt-ids): In a taken-over table a `user_id` of no event is set aside; columns of
// types that do not fit are refused before a change.
func TestAdoptedUserIDsOutOfRange(t *testing.T) {
	for name, types := range userColumns {
		for kind, users := range types {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				db := shopDatabase(t, name)
				exec(t, db, strings.Replace(shopTables[name], "user_id INT ", "user_id "+kind+" ", 1))
				insert := func(processed string) {
					t.Helper()
					for _, user := range append(users, "7") {
						exec(t, db, fmt.Sprintf("INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, processed_to_queue) "+
							"VALUES (%s, 'product_view', 1, '2026-02-10 14:30:00', %s)", user, processed))
					}
				}
				insert("FALSE")
				insert("TRUE")
				done, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
				must.OK(t, err)
				if want := int64(len(users)); done.NoEvents != want || done.History != 1 {
					t.Errorf("adopted %+v, want %d rows without an event", done, want)
				}
				insert("FALSE") // as the checkout does before setup goes on
				must.OK(t, db.Setup(t.Context(), SetupOptions{}))
				insert("FALSE")
				b := &broker{}
				running(t, NewRelay(db, b, brisk(), quiet))
				drained(t, db)
				b.expectAll(t, 0) // the event of user 7 is history
				if failed := backlog(t, db).Failed; failed != int64(3*len(users)) {
					t.Errorf("%d rows are set aside, want %d", failed, 3*len(users))
				}
			})
		}
	}
}

// The expression of a user's shard is that of [engine.SlotOf], in a table that was taken
// over as in keyfold's own.
//
// Promise(outbox/adopt-ids)
func TestAdoptedShards(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		shopHistory(t, db, 100, 0)
		_, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
		must.OK(t, err)
		expectShards(t, db)
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		for _, user := range []int32{1, 2147483647, 1618033989, 99} {
			exec(t, db, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) VALUES (?, 'product_view', 1, '2026-02-10 14:30:00')", user)
		}
		expectShards(t, db)
	})
}

// What keyfold cannot work with is refused before the table is changed.
//
// Promise(outbox/adopt-ids)
func TestAdoptRefusesTypes(t *testing.T) {
	for name, columns := range map[string][][2]string{
		"mariadb":  {{"user_id INT ", "user_id VARCHAR(36) "}, {"user_id INT ", "user_id DECIMAL(12, 2) "}, {"occurred_at DATETIME", "occurred_at VARCHAR(40)"}},
		"postgres": {{"user_id INT ", "user_id UUID "}, {"user_id INT ", "user_id NUMERIC "}, {"processed_to_queue BOOLEAN DEFAULT FALSE", "processed_to_queue SMALLINT DEFAULT 0"}, {"created_at TIMESTAMP", "created_at TEXT"}},
		"sqlite": {
			{"user_id INT ", "user_id TEXT "},
			{"user_id INT ", "user_id REAL "},
			{"user_id INT ", "user_id "},
			{"user_id INT ", "user_id BLOB "},
			{"processed_to_queue BOOLEAN", "processed_to_queue TEXT"},
			{"id INTEGER PRIMARY KEY AUTOINCREMENT", "id INT PRIMARY KEY"},
			{"id INTEGER PRIMARY KEY AUTOINCREMENT", "id TEXT PRIMARY KEY NOT NULL"},
		},
	} {
		for _, change := range columns {
			t.Run(change[1], func(t *testing.T) {
				t.Parallel()
				db := shopDatabase(t, name)
				exec(t, db, strings.Replace(shopTables[name], change[0], change[1], 1))
				_, err := db.Adopt(t.Context(), adoptInPlace, AdoptOptions{})
				column, _, _ := strings.Cut(change[1], " ")
				must.Fault(t, err, reasonSchema, column, "type")
				unchanged(t, db)
			})
		}
	}
}

func expectShards(t *testing.T, db *Database) {
	t.Helper()
	rows, err := collect(t.Context(), db.pool, func(s scanner) (row [2]int64, err error) {
		err = s.Scan(&row[0], &row[1])
		return row, err
	}, "SELECT user_id, shard FROM user_interactions")
	must.OK(t, err)
	for _, row := range rows {
		if want := engine.SlotOf(int32(row[0])); row[1] != int64(want) {
			t.Errorf("user %d has the shard %d, want %d", row[0], row[1], want)
		}
	}
}
