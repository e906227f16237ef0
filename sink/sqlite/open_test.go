package sqlite

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"keyfold/engine"
)

// expectFault expects a configuration fault whose text names all of words.
func expectFault(t *testing.T, err error, reason string, words ...string) {
	t.Helper()
	if engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != reason {
		t.Fatalf("got %v (%s), want the configuration fault %s", err, engine.ReasonOf(err), reason)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not name %q", err, word)
		}
	}
}

func TestOtherSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	must(t, openAt(t, path, 8).Close())

	other := Settings{Dimensions: 16, History: engine.UnitMass, Model: "other"}
	_, err := Open(path, other)
	expectFault(t, err, "store_settings", "EMBEDDING_DIMENSIONS is 16", "EMBEDDING_DIMENSIONS=8",
		"EMBEDDING_HISTORY is unit", "EMBEDDING_HISTORY=mass", "EMBEDDING_MODEL=text-embedding-3-small", "another data folder")

	other = settings(8)
	other.History = engine.UnitMass
	_, err = Open(path, other)
	expectFault(t, err, "store_settings", "EMBEDDING_HISTORY=mass")
	if strings.Contains(err.Error(), "DIMENSIONS") {
		t.Errorf("%q names a setting that is the same", err)
	}
	_, err = Open(path, Settings{})
	expectFault(t, err, "store_settings", "EMBEDDING_DIMENSIONS", "EMBEDDING_HISTORY")

	must(t, openAt(t, path, 8).Close()) // none of this changed the file
}

func TestForeignFilesStayAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign.db")
	db, err := sql.Open(driverName, foreign)
	must(t, err)
	_, err = db.Exec("CREATE TABLE theirs (a)")
	must(t, err)
	must(t, db.Close())

	text := filepath.Join(dir, "notes.txt")
	must(t, os.WriteFile(text, []byte(strings.Repeat("not a database at all\n", 1000)), 0o600))

	for _, path := range []string{foreign, text} {
		before, err := os.ReadFile(path)
		must(t, err)
		_, err = Open(path, settings(8))
		expectFault(t, err, "store_not_keyfold", path)
		_, err = OpenReader(path)
		expectFault(t, err, "store_not_keyfold", path)
		after, err := os.ReadFile(path)
		must(t, err)
		if !bytes.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
}

func TestNewerFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	f := openAt(t, path, 8)
	must(t, f.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec("PRAGMA user_version = 99")
		return err
	}))
	must(t, f.Close())
	_, err := Open(path, settings(8))
	expectFault(t, err, "store_newer", "schema 99", "run that version")
	_, err = OpenReader(path)
	expectFault(t, err, "store_newer", "schema 99")
}

func TestNoSuchPlace(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "no", "such", "f.db"), settings(8))
	expectFault(t, err, "store_not_writable", "folder exists")
	_, err = Open(dir, settings(8))
	expectFault(t, err, "store_not_writable")
	missing := filepath.Join(dir, "missing.db")
	_, err = OpenReader(missing)
	expectFault(t, err, "store_not_keyfold", "does not exist")
	if _, err := os.Stat(missing); err == nil {
		t.Error("a reader created the file")
	}
}

// What is stored of users is for this system user alone, whatever the umask.
func TestFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	f := openAt(t, filepath.Join(dir, "f.db"), 8)
	must(t, f.Write(ctx, func(tx *Tx) error { return nil }))
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) != 3 {
		t.Errorf("found %v, want the database, its log and the log's index", files)
	}
	for _, file := range files {
		info, err := file.Info()
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v", file.Name(), info.Mode())
		}
	}
}

func TestEmptyFileIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	must(t, os.WriteFile(path, nil, 0o600))
	f := openAt(t, path, 8)
	for pragma, want := range map[string]string{"journal_mode": "wal", "page_size": "16384"} {
		var got string
		if must(t, one(f, path, "PRAGMA "+pragma, &got)); got != want {
			t.Errorf("%s is %s, want %s", pragma, got, want)
		}
	}
	must(t, f.Write(ctx, func(tx *Tx) error {
		for pragma, want := range map[string]string{"synchronous": "2", "wal_autocheckpoint": "4096", "busy_timeout": "5000"} {
			var got string
			if must(t, one(tx.c, path, "PRAGMA "+pragma, &got)); got != want {
				t.Errorf("the writer's %s is %s, want %s", pragma, got, want)
			}
		}
		return nil
	}))
}

// TestOpenTogether opens a new file several times at once.
func TestOpenTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			f, err := Open(path, settings(8))
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			p := &engine.Profile{UserID: int32(i), Version: 1, Vector: make([]float64, 8)}
			noErrors(t, f.Swap(ctx, []*engine.Profile{p}))
			if err := f.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	group.Wait()
	if n, err := openAt(t, path, 8).CountProfiles(ctx); err != nil || n != 4 {
		t.Errorf("%d profiles, %v, want 4", n, err)
	}
}

func TestReaderBesideAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	f := openAt(t, path, 8)
	r, err := OpenReader(path)
	must(t, err)
	if r.Settings() != settings(8) {
		t.Errorf("settings are %+v", r.Settings())
	}
	for user := range int32(20) {
		p := &engine.Profile{UserID: user, Version: 1, Vector: make([]float64, 8)}
		noErrors(t, f.Swap(ctx, []*engine.Profile{p}))
		if got, err := r.Load(ctx, []int32{user}); err != nil || got[0] == nil {
			t.Fatalf("the reader does not see user %d: %v", user, err)
		}
	}
	must(t, r.Close())
	must(t, f.Close())

	alone, err := OpenReader(path)
	must(t, err)
	if n, err := alone.CountProfiles(ctx); err != nil || n != 20 {
		t.Errorf("%d profiles, %v, want 20", n, err)
	}
	must(t, alone.Close())
}

func TestDamagedRow(t *testing.T) {
	f := openNew(t, 8)
	must(t, f.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO user_embeddings (user_id, version, embedding, dimension_count, applied)
			VALUES (1, 1, zeroblob(64), 8, x'00')`)
		return err
	}))
	_, err := f.Load(ctx, []int32{1})
	expectFault(t, err, "store_corrupt", "user 1", "backup")
	if err := f.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec("UPDATE user_embeddings SET embedding = zeroblob(9)")
		return err
	}); engine.KindOf(err) != engine.Permanent {
		t.Errorf("a vector of another length than its row says: %v", err)
	}
}
