package postgres

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// Setup runs every migration: their numbers have no gap, and the last is the newest.
func TestNewestMigration(t *testing.T) {
	names, err := fs.Glob(migrations(), "*.sql")
	must(t, err)
	for i, name := range names {
		if !strings.HasPrefix(name, fmt.Sprintf("%05d_", i+1)) {
			t.Errorf("the migration %d is %s", i+1, name)
		}
	}
	if len(names) != newestMigration {
		t.Errorf("%d migrations, and the newest is %d", len(names), newestMigration)
	}
}
