package inbox

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

func dead(t *testing.T, r Reader, id int64, reason string) (all []DeadEvent) {
	t.Helper()
	for d, err := range Dead(context.Background(), r, id, reason) {
		must.OK(t, err)
		all = append(all, d)
	}
	return all
}

// A dead body says where it was read last, in a file that was made without that too.
func TestDeadEventsKeepTheirOrigin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	db, err := sql.Open("sqlite", "file:"+path)
	must.OK(t, err)
	for d, err := range Dead(context.Background(), db, 0, "") {
		if !errors.Is(err, ErrNoDead) {
			t.Errorf("of an empty file: %+v, %v", d, err)
		}
	}
	for _, statement := range schema {
		statement = strings.Replace(statement, `,
		file       TEXT    NOT NULL DEFAULT '',
		line       INTEGER NOT NULL DEFAULT 0`, "", 1)
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(`INSERT INTO dead (body_hash, reason, detail, body, first_at, last_at) VALUES (x'00', 'malformed_json', 'old', x'00', 1, 1)`); err != nil {
		t.Fatal(err)
	}
	for _, err := range Dead(context.Background(), db, 0, "") {
		if !errors.Is(err, ErrNoDead) {
			t.Errorf("of an older file: %v", err)
		}
	}
	must.OK(t, db.Close())
	b := start(t, path, patient, nil)
	defer b.stop()
	garbage, field := malformed("garbage"), malformed(`{"user_id":1}`)
	garbage.Origin, field.Origin = Origin{"a.ndjson", 3}, Origin{"a.ndjson", 4}
	b.add(t, garbage, field)
	garbage.Origin.Line = 7
	b.add(t, garbage)
	all := dead(t, b.read, 0, "")
	if len(all) != 3 || all[0].Detail != "old" || all[0].Origin != (Origin{}) || all[1].Origin != garbage.Origin || all[1].Times != 2 || all[2].Origin != field.Origin {
		t.Errorf("%+v", all)
	}
	if one := dead(t, b.read, all[2].ID, ""); len(one) != 1 || string(one[0].Body) != `{"user_id":1}` || one[0].Reason != engine.ReasonMissingField {
		t.Errorf("one id: %+v", one)
	}
	if some := dead(t, b.read, 0, engine.ReasonMalformedJSON); len(some) != 2 {
		t.Errorf("one reason: %+v", some)
	}
	for range 5 {
		b.add(t, field)
	}
	if s := b.Stats(); len(s.FirstDead) != maxFirstDead || s.FirstDead[0].Origin.Line != 3 || s.Dead[engine.ReasonMissingField] != 6 {
		t.Errorf("%+v", s)
	}
}

// Skipped events are counted by user, and marked as folded once they are.
//
// Promise(lite/products-later)
func TestProductMissing(t *testing.T) {
	b := newBench(t)
	settle(b.add(t, events(1, 0, 3)...), engine.ProductMissing)
	settle(b.add(t, events(2, 0, 2)...), engine.ProductMissing)
	settle(b.add(t, events(2, 5, 1)...), engine.UserErased)
	b.idle(t)
	missing := func(want1, want2 int64) {
		t.Helper()
		users, err := ProductMissing(context.Background(), b.read)
		if err != nil || users[1] != want1 || users[2] != want2 {
			t.Errorf("%v, %v; want %d and %d", users, err, want1, want2)
		}
	}
	missing(3, 2)
	last, err := Last(context.Background(), b.read, 1, 2)
	must.OK(t, err)
	must.OK(t, MarkFolded(context.Background(), b.writer, 1, []string{last[0].MessageID, last[1].MessageID, "another"}))
	missing(1, 2)
	if last, err = Last(context.Background(), b.read, 1, 1); err != nil || last[0].State != StateFolded || last[0].SettledAt == 0 {
		t.Errorf("%+v, %v", last, err)
	}
}
