package outbox

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// All rows of a user go, in as many chunks as it takes, and no others.
//
// Promise(security/forget)
func TestForgetDeletesAUsersRows(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		const rows = forgetChunk + 300
		fill(t, db, 1, rows-200)
		var other []profile.Entry
		for n := range 200 {
			other = append(other, view(t, 2, n))
		}
		add(t, storeOn(t, db, StoreConfig{}), other...)
		_, err := db.pool.Exec("UPDATE user_interactions SET processed_to_queue = TRUE WHERE id % 3 = 0")
		must.OK(t, err)
		count := func(user int32) int64 {
			n, err := db.Count(t.Context(), Filter{UserID: user})
			must.OK(t, err)
			return n
		}
		want := count(1)
		none := func([]byte) int32 { return 0 }
		for _, round := range []struct {
			onlyCount bool
			rows      int64
		}{{true, want}, {false, want}, {false, 0}} {
			if done, err := db.Forget(t.Context(), 1, none, round.onlyCount); done != (Forgotten{Rows: round.rows}) || want <= forgetChunk || err != nil {
				t.Errorf("%+v: %+v, %v", round, done, err)
			}
		}
		for user, want := range map[int32]int64{1: 0, 2: rows - want} {
			n, err := db.countOld(t.Context(), "SELECT COUNT(*) FROM keyfold_event_ids WHERE user_id = ?", user)
			if err != nil || n != want {
				t.Errorf("%d ids of user %d are left, %v; want %d", n, user, err, want)
			}
		}
		if count(1) != 0 || count(2) != rows-want {
			t.Errorf("%d rows of the user are left and %d of another, want 0 and %d", count(1), count(2), rows-want)
		}
	})
}

// archivedOf makes an archived letter of a body.
func archivedOf(user int32, body string) ArchivedLetter {
	return ArchivedLetter{Queue: "dead", UserID: user, Body: []byte(body), FailedAt: 1_770_000_000_000}
}

// Archived letters go with their user, also those that were archived without one, and
// those of no user that can be read stay and are counted.
//
// Promise(security/forget)
func TestForgetArchivedLetters(t *testing.T) {
	mentioned := func(body []byte) int32 {
		n, _ := strconv.Atoi(string(body[1:3]))
		return int32(n)
	}
	onEach(t, func(t *testing.T, db *Database) {
		letters := []ArchivedLetter{archivedOf(17, "[00]"), archivedOf(18, "[00] of 18"), archivedOf(0, "[xx]")}
		const letters17 = statementRows + 10
		for n := range letters17 * 2 {
			letters = append(letters, archivedOf(0, fmt.Sprintf("[%d] %d", 17+n%2, n)))
		}
		_, err := db.Archive(t.Context(), letters)
		must.OK(t, err)
		want := Forgotten{Letters: letters17 + 1, Unread: 1}
		if got, err := db.Forget(t.Context(), 17, mentioned, true); got != want || err != nil {
			t.Errorf("counted are %+v (%v), want %+v", got, err, want)
		}
		if got, err := db.Forget(t.Context(), 17, mentioned, false); got != want || err != nil {
			t.Errorf("deleted are %+v (%v), want %+v", got, err, want)
		}
		if n, err := db.countOld(t.Context(), "SELECT COUNT(*) FROM keyfold_failed"); n != letters17+2 || err != nil {
			t.Errorf("%d letters are left (%v), want %d", n, err, letters17+2)
		}
	})
}

// secret is what only the events of the erased user hold.
const secret = "zanzibar lamp"

// holdsSecret looks for the secret in the bytes of a database's files.
func holdsSecret(t *testing.T, path string) bool {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	must.OK(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		must.OK(t, err)
		if bytes.Contains(content, []byte(secret)) {
			return true
		}
	}
	return false
}

// An erasure leaves no byte of the user in SQLite's files: not in rows, nor in what a
// cleanup, a retry, a removal or the shop freed before, nor in the write-ahead log, also
// where other connections have the file open.
//
// Promise(security/forget)
func TestForgetLeavesNoByteInSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox.db")
	db := openAt(t, "sqlite://"+path)
	other := openOnly(t, "sqlite://"+path) // a service's
	must.OK(t, other.Check(t.Context()))
	shop, err := sql.Open("sqlite", path) // overwrites nothing that it deletes
	must.OK(t, err)
	defer shop.Close()
	s := storeOn(t, db, StoreConfig{})
	for n := range 60 {
		add(t, s, search(t, 17, secret+strings.Repeat(" and more of it", n%3*5), fmt.Sprint("a", n)), search(t, 18, "garden hose", fmt.Sprint("b", n)))
	}
	_, err = db.Archive(t.Context(), []ArchivedLetter{archivedOf(17, secret), archivedOf(18, "garden hose")})
	must.OK(t, err)
	_, err = shop.Exec("UPDATE user_interactions SET processed_to_queue = TRUE, body = NULL WHERE id % 4 = 0")
	must.OK(t, err)
	_, err = shop.Exec("DELETE FROM user_interactions WHERE user_id = 17 AND id % 3 = 0")
	must.OK(t, err)
	if !holdsSecret(t, path) {
		t.Fatal("the files do not show what they hold: the search below would say nothing")
	}
	reading, err := shop.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	must.OK(t, err)
	var n int
	must.OK(t, reading.QueryRow("SELECT COUNT(*) FROM user_interactions").Scan(&n))
	none := func([]byte) int32 { return 0 }
	if _, err := db.Forget(t.Context(), 17, none, false); err == nil || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("beside a transaction that reads the former state: %v", err)
	}
	must.OK(t, reading.Rollback())
	if _, err := db.Forget(t.Context(), 17, none, false); err != nil {
		t.Error(err)
	}
	if holdsSecret(t, path) {
		t.Error("the files still hold the user's phrases")
	}
	if rows := rowsOf(t, db, Filter{UserID: 18}); len(rows) != 60 {
		t.Errorf("%d rows of another user are left, want 60", len(rows))
	}
}

// What a cleanup frees is overwritten in SQLite's file, without its being written anew.
//
// Promise(security/forget)
func TestCleanupOverwritesInSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox.db")
	db := openAt(t, "sqlite://"+path)
	s := storeOn(t, db, StoreConfig{})
	const rows = 20
	for n := range rows {
		entry := view(t, 1, n)
		entry.Body = []byte(strings.Replace(string(entry.Body), `"1.0"`, `"1.0","note":"`+strings.Repeat(secret, 500)+`"`, 1))
		add(t, s, entry)
	}
	exec(t, db, "UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = created_at")
	if n, err := db.Cleanup(t.Context(), engine.Now()+1000, CleanupOptions{}); n != rows || err != nil {
		t.Fatalf("%d rows are freed, %v", n, err)
	}
	exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	if holdsSecret(t, path) {
		t.Error("the file still holds the body")
	}
}
