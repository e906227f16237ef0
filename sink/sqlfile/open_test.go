package sqlfile

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

func TestForeignFilesStayAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign.db")
	db, err := sql.Open(driverName, foreign)
	must.OK(t, err)
	_, err = db.Exec("CREATE TABLE theirs (a)")
	must.OK(t, err)
	must.OK(t, db.Close())

	text := filepath.Join(dir, "notes.txt")
	must.OK(t, os.WriteFile(text, []byte(strings.Repeat("not a database at all\n", 1000)), 0o600))

	for _, path := range []string{foreign, text} {
		before, err := os.ReadFile(path)
		must.OK(t, err)
		_, err = Open(path, schema)
		must.Fault(t, err, "store_not_keyfold", path)
		_, err = OpenReader(path, schema)
		must.Fault(t, err, "store_not_keyfold", path)
		after, err := os.ReadFile(path)
		must.OK(t, err)
		if !bytes.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
}

func TestNewerFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	f := openAt(t, path)
	must.OK(t, f.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec("PRAGMA user_version = 99")
		return err
	}))
	must.OK(t, f.Close())
	_, err := Open(path, schema)
	must.Fault(t, err, "store_newer", "schema 99", "run that version")
	_, err = OpenReader(path, schema)
	must.Fault(t, err, "store_newer", "schema 99")
}

func TestNoSuchPlace(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "no", "such", "f.db"), schema)
	must.Fault(t, err, "store_not_writable", "folder exists")
	_, err = Open(dir, schema)
	must.Fault(t, err, "store_not_writable")
	missing := filepath.Join(dir, "missing.db")
	_, err = OpenReader(missing, schema)
	must.Fault(t, err, "store_not_keyfold", "does not exist")
	if _, err := os.Stat(missing); err == nil {
		t.Error("a reader created the file")
	}
}

// What is stored of users is for this system user alone, whatever the umask.
//
// Promise(security/secrets)
func TestFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	f := openAt(t, filepath.Join(dir, "f.db"))
	must.OK(t, f.Write(ctx, func(tx *Tx) error { return nil }))
	files, err := os.ReadDir(dir)
	must.OK(t, err)
	if len(files) != 3 {
		t.Errorf("found %v, want the database, its log and the log's index", files)
	}
	for _, file := range files {
		info, err := file.Info()
		must.OK(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v", file.Name(), info.Mode())
		}
	}
}

func TestEmptyFileIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	must.OK(t, os.WriteFile(path, nil, 0o600))
	f := openAt(t, path)
	for pragma, want := range map[string]string{"journal_mode": "wal", "page_size": "16384"} {
		var got string
		if must.OK(t, f.Reader().One("PRAGMA "+pragma, &got)); got != want {
			t.Errorf("%s is %s, want %s", pragma, got, want)
		}
	}
	must.OK(t, f.Write(ctx, func(tx *Tx) error {
		for pragma, want := range map[string]string{"synchronous": "2", "wal_autocheckpoint": "4096", "busy_timeout": "5000"} {
			var got string
			if must.OK(t, tx.One("PRAGMA "+pragma, &got)); got != want {
				t.Errorf("the writer's %s is %s, want %s", pragma, got, want)
			}
		}
		return nil
	}))
}

// A file that is written anew has no byte of what was deleted, also where readers have it
// open; one that reads a former state is told of.
//
// Promise(security/forget)
func TestRewriteLeavesNoByte(t *testing.T) {
	const secret = "zanzibar lamp"
	path := filepath.Join(t.TempDir(), "f.db")
	f := openAt(t, path)
	for _, statement := range []string{
		"CREATE TABLE texts (text TEXT NOT NULL)",
		"INSERT INTO texts SELECT '" + secret + "' || n FROM (WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000) SELECT n FROM c)",
		"DELETE FROM texts",
	} {
		must.OK(t, f.Write(ctx, func(tx *Tx) error { _, err := tx.Exec(statement); return err }))
	}
	must.OK(t, f.Close())
	reader, err := OpenReader(path, schema)
	must.OK(t, err)
	defer func() { must.OK(t, reader.Close()) }()
	var n int
	must.OK(t, reader.One("SELECT COUNT(*) FROM texts", &n))
	pool, err := sql.Open(driverName, path)
	must.OK(t, err)
	defer func() { must.OK(t, pool.Close()) }()
	reading, err := pool.BeginTx(ctx, nil)
	must.OK(t, err)
	must.OK(t, reading.QueryRow("SELECT COUNT(*) FROM texts").Scan(&n))
	if err := Rewrite(ctx, path); err == nil || !strings.Contains(err.Error(), "former state") {
		t.Errorf("beside a transaction that reads: %v", err)
	}
	must.OK(t, reading.Rollback())
	must.OK(t, Rewrite(ctx, path))
	for _, name := range []string{path, path + "-wal"} {
		if content, err := os.ReadFile(name); err == nil && bytes.Contains(content, []byte(secret)) {
			t.Errorf("%s still holds it", filepath.Base(name))
		}
	}
}
