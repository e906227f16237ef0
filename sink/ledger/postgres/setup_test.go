package postgres

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"

	"keyfold/engine/notify"
)

// Setup runs every migration: their numbers have no gap, and the last is the newest.
func TestNewestMigration(t *testing.T) {
	names, err := fs.Glob(migrations(), "*.sql")
	must.OK(t, err)
	for i, name := range names {
		if !strings.HasPrefix(name, fmt.Sprintf("%05d_", i+1)) {
			t.Errorf("the migration %d is %s", i+1, name)
		}
	}
	if len(names) != newestMigration {
		t.Errorf("%d migrations, and the newest is %d", len(names), newestMigration)
	}
}

// The server does not try to compress states.
func TestStatesAreNotCompressed(t *testing.T) {
	l := openNew(t)
	var storage string
	must.OK(t, l.pool.QueryRow(ctx, "SELECT attstorage::text FROM pg_attribute WHERE attrelid = 'notify_users'::regclass AND attname = 'state'").Scan(&storage))
	if storage != "e" {
		t.Errorf("the storage of states is %q, want e: outside of the row, as they are", storage)
	}
}

// Preferences of an earlier version's tables keep what they are, and are of version 1.
func TestPreferencesGetAVersion(t *testing.T) {
	server := pgtest.Shared(t)
	l := openAt(t, server.URL(server.Database(t, "")))
	must.OK(t, l.setUp(ctx, 8))
	_, err := l.pool.Exec(ctx, `INSERT INTO notify_preferences (user_id, preferences) VALUES ('a', '{"caps":[1,2,3]}')`)
	must.OK(t, err)
	must.OK(t, l.Setup(ctx))
	own := notify.Preferences{Caps: notify.Caps{1, 2, 3}}
	if got, err := l.Preferences(ctx, "a"); err != nil || got.Version != 1 || got.Own.Caps != own.Caps {
		t.Errorf("%+v, %v", got, err)
	}
	if version, err := l.UpdatePreferences(ctx, "a", 1, own); err != nil || version != 2 {
		t.Errorf("version %d, %v", version, err)
	}
}
