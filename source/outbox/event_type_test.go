package outbox

import (
	"database/sql"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyfold/engine/causes"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// The column event_type takes each type, as the last migration that names the four has them, with the shop's.
func TestEventTypesOfTheColumn(t *testing.T) {
	var names []string
	for _, eventType := range profile.EventTypes() {
		names = append(names, "'"+eventType.String()+"'")
	}
	want := strings.Join(names, ", ")
	list := regexp.MustCompile(`(?:ENUM|event_type IN) ?\(([^)]*)\)`)
	for _, flavour := range []string{MySQL, MariaDB, PostgreSQL, SQLite} {
		text, err := SQL(flavour, SetupOptions{})
		must.OK(t, err)
		found := list.FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Fatalf("%s: no list of types", flavour)
		}
		if got := found[len(found)-1][1]; got != want {
			t.Errorf("%s: the column takes %s, want %s: add a migration", flavour, got, want)
		}
	}
}

// Each database takes a row of each type.
func TestColumnTakesEveryEventType(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		for i, eventType := range profile.EventTypes() {
			shopInsert(t, db, 1, eventType.String(), nil, nil, recently(i), nil)
		}
		if _, err := db.pool.Exec("INSERT INTO user_interactions (user_id, event_type, occurred_at) VALUES (1, 'no_such_type', ?)", recently(0)); err == nil {
			t.Error("the column takes a type that does not exist")
		}
	})
}

// A database that was set up without the shop's types is refused, and they are named. Setup has
// the column take them, and leaves what it takes already, its rows and its options.
func TestColumnThatLacksTheShopsTypes(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		before := columnOptions(t, db)
		lack(t, db)
		must.Fault(t, db.Check(t.Context()), reasonSchema, "does not take outbox_wish, outbox_return, outbox_question")
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		must.OK(t, db.Check(t.Context()))
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		shopInsert(t, db, 1, "outbox_return", nil, 7, recently(2), nil)
		shopInsert(t, db, 1, "outbox_wish", nil, 8, recently(3), nil)
		shopInsert(t, db, 1, "of_another_process", nil, 9, recently(4), nil)
		if _, err := db.pool.Exec("INSERT INTO user_interactions (user_id, event_type, occurred_at) VALUES (1, 'no_such_type', ?)", recently(0)); err == nil {
			t.Error("the column takes a type that does not exist")
		}
		if after := columnOptions(t, db); !slices.Equal(after, before) {
			t.Errorf("the column was %q, and is %q", before, after)
		}
		counts, err := db.ProductCounts(t.Context(), 7, []profile.EventType{profile.ParseEventType("outbox_return")})
		must.OK(t, err)
		if want := map[int32]int64{7: 1, 8: 1, 9: 1}; !maps.Equal(counts, want) {
			t.Errorf("%v events of products, want %v without the return", counts, want)
		}
	})
}

// columnOptions are those of the column event_type beside its type, on a server that changes it
// as a whole.
func columnOptions(t *testing.T, db *Database) []string {
	t.Helper()
	if db.words.server != causes.MariaDB {
		return nil
	}
	options, err := collect(t.Context(), db.pool, column[string], `SELECT concat_ws('|', is_nullable, coalesce(column_default, '-'), collation_name, column_comment, ordinal_position)
		FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'user_interactions' AND column_name = 'event_type'`)
	must.OK(t, err)
	return options
}

// lack has the column take the four and one of another process, with a row.
func lack(t *testing.T, db *Database) {
	t.Helper()
	must.OK(t, db.settingUp(t.Context(), func(_ *sql.DB, conn *sql.Conn, flavour string) error {
		list, err := typeListOf(t.Context(), conn, flavour)
		if err != nil {
			return err
		}
		return Patience{}.with(db.dialect).change(t.Context(), conn, list.change(append(slices.Clone(list.names[:4]), "of_another_process")))
	}))
	shopInsert(t, db, 1, "product_view", nil, 7, recently(1), nil)
}

// A shop's own table takes its types once it is taken over. A type of the shop's own making is
// the shop's to change.
func TestAdoptTakesOwnTypes(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		shopInsert(t, db, 1, "product_view", nil, 7, recently(1), nil)
		_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
		must.OK(t, err)
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		must.OK(t, db.Check(t.Context()))
		shopInsert(t, db, 1, "outbox_return", nil, 7, recently(2), nil)
	})
}

func TestAdoptNamesATypeThatLacksTheShopsTypes(t *testing.T) {
	db := shopDatabase(t, "postgres")
	exec(t, db, "CREATE TYPE kind AS ENUM ('search', 'product_view', 'product_click', 'product_purchase', 'outbox_wish', 'outbox_question')")
	exec(t, db, strings.Replace(shopTables["postgres"], "event_type VARCHAR(20)", "event_type kind", 1))
	_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
	must.Fault(t, err, reasonSchema, "lacks outbox_return: run ALTER TYPE kind ADD VALUE 'outbox_return', then this again")
	exec(t, db, "ALTER TYPE kind ADD VALUE 'outbox_return'")
	_, err = db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
	must.OK(t, err)
	must.OK(t, db.Setup(t.Context(), SetupOptions{}))
	must.OK(t, db.Check(t.Context()))
}
