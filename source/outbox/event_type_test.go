package outbox

import (
	"regexp"
	"strings"
	"testing"

	"keyfold/engine/profile"
)

// The column event_type takes each type, as the last migration that names them has it.
func TestEventTypesOfTheColumn(t *testing.T) {
	var names []string
	for _, eventType := range profile.EventTypes {
		names = append(names, "'"+eventType.String()+"'")
	}
	want := strings.Join(names, ", ")
	list := regexp.MustCompile(`(?:ENUM|event_type IN) ?\(([^)]*)\)`)
	for _, flavour := range []string{MySQL, MariaDB, PostgreSQL, SQLite} {
		text, err := SQL(flavour, SetupOptions{})
		if err != nil {
			t.Fatal(err)
		}
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
		for i, eventType := range profile.EventTypes {
			shopInsert(t, db, 1, eventType.String(), nil, nil, recently(i), nil)
		}
		if _, err := db.pool.Exec("INSERT INTO user_interactions (user_id, event_type, occurred_at) VALUES (1, 'no_such_type', ?)", recently(0)); err == nil {
			t.Error("the column takes a type that does not exist")
		}
	})
}
