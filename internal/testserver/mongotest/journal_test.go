package mongotest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"keyfold/internal/testserver/must"
)

// reopen starts a server on the file as it is now, as if the process had been
// killed: on a copy, as the first one has not let go of it.
// It returns the copy's path.
func reopen(t *testing.T, path string) (string, *mongo.Collection) {
	t.Helper()
	content, err := os.ReadFile(path)
	must.OK(t, err)
	next := filepath.Join(t.TempDir(), "journal")
	must.OK(t, os.WriteFile(next, content, 0o600))
	s := Start(t, WithData(next))
	return next, connect(t, s.URI()).Database("shop").Collection("users")
}

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	s := Start(t, WithData(path))
	client := connect(t, s.URI())
	c := users(t, client)
	ctx := t.Context()
	for user := range 10 {
		insert(t, c, bson.D{{Key: "user_id", Value: user}, {Key: "n", Value: 0}})
	}
	for user := range 5 {
		_, err := c.UpdateOne(ctx, one("user_id", user), increment)
		must.OK(t, err)
	}
	_, err := c.DeleteOne(ctx, one("user_id", 9))
	must.OK(t, err)
	insert(t, c, one("user_id", 9))
	other := client.Database("shop").Collection("other")
	insert(t, other, one("x", 1))
	must.OK(t, other.Drop(ctx))
	must.OK(t, c.Database().RunCommand(ctx, bson.D{{Key: "collMod", Value: "users"}, {Key: "validator", Value: one("user_id", one("$exists", true))}}).Err())
	must.OK(t, s.StallReplication())
	FailCommand(t, s.URI(), bson.M{"times": 2}, bson.M{ // instead of waiting
		"failCommands": bson.A{"insert", "delete"}, "writeConcernError": bson.M{"code": 64},
	})
	_, _ = c.DeleteOne(ctx, one("user_id", 0))
	_, _ = c.InsertOne(ctx, bson.D{{Key: "user_id", Value: 0}, {Key: "n", Value: 99}})
	_, err = s.Rollback()
	must.OK(t, err)

	check := func(c *mongo.Collection) {
		t.Helper()
		for user, want := range map[int]int64{0: 1, 4: 1, 5: 0, 8: 0} {
			if got := stored(t, c, one("user_id", user)); got != want {
				t.Errorf("user %d: n = %d, want %d", user, got, want)
			}
		}
		if n := counted(t, c, bson.D{}); n != 10 {
			t.Errorf("%d documents", n)
		}
		if _, err := c.InsertOne(ctx, one("user_id", 9)); !mongo.IsDuplicateKeyError(err) {
			t.Errorf("the unique index is gone: %v", err)
		}
		if _, err := c.InsertOne(ctx, one("x", 9)); !isCode(err, codeValidation) {
			t.Errorf("the validator is gone: %v", err)
		}
		names, err := c.Database().ListCollectionNames(ctx, bson.D{})
		if err != nil || len(names) != 1 {
			t.Errorf("collections: %v, %v", names, err)
		}
	}
	check(c)
	path, again := reopen(t, path) // what the first wrote
	check(again)
	_, again = reopen(t, path) // and what that went on with
	check(again)
}

// What a retry must find survives as well.
func TestJournalKeepsRetryableWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	s := Start(t, WithData(path))
	c := users(t, connect(t, s.URI()))
	insert(t, c, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 0}})
	write := bson.D{
		{Key: "update", Value: "users"},
		{Key: "lsid", Value: one("id", bson.Binary{Subtype: 4, Data: make([]byte, 16)})},
		{Key: "txnNumber", Value: int64(3)},
		{Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: one("user_id", 1)}, {Key: "u", Value: increment}}}},
	}
	must.OK(t, c.Database().RunCommand(t.Context(), write).Err())
	for range 2 { // once from what was appended, once from what was read
		var again *mongo.Collection
		path, again = reopen(t, path)
		raw, err := again.Database().RunCommand(t.Context(), write).Raw()
		must.OK(t, err)
		if raw.Lookup("nModified").AsInt64() != 1 || stored(t, again, one("user_id", 1)) != 1 {
			t.Errorf("a retry after the restart: %s", raw)
		}
	}
}

func TestTornJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	s := Start(t, WithData(path))
	c := users(t, connect(t, s.URI()))
	for user := range 3 {
		insert(t, c, bson.D{{Key: "user_id", Value: user}, {Key: "n", Value: 1}})
	}
	whole, err := os.ReadFile(path)
	must.OK(t, err)
	insert(t, c, bson.D{{Key: "user_id", Value: 3}, {Key: "n", Value: 1}})
	longer, err := os.ReadFile(path)
	must.OK(t, err)

	open := func(content []byte) (*store, error) {
		t.Helper()
		next := filepath.Join(t.TempDir(), "journal")
		must.OK(t, os.WriteFile(next, content, 0o600))
		st := newStore()
		j, err := openJournal(next, st)
		if err == nil {
			must.OK(t, j.close())
			left, err := os.ReadFile(next)
			must.OK(t, err)
			if !bytes.Equal(left, whole) {
				t.Errorf("%d bytes are left of the file, of whole records are %d", len(left), len(whole))
			}
		}
		return st, err
	}
	for cut := len(whole); cut < len(longer); cut += 7 {
		st, err := open(longer[:cut])
		must.OK(t, err)
		if n := len(st.collection("shop.users").rows); n != 3 {
			t.Fatalf("cut at %d of %d: %d documents", cut, len(longer), n)
		}
	}
	for _, at := range []int{len(whole) + frameBytes + 5, len(longer) - 3} { // the last record
		damaged := bytes.Clone(longer)
		damaged[at] ^= 0x55
		st, err := open(damaged)
		must.OK(t, err)
		if n := len(st.collection("shop.users").rows); n != 3 {
			t.Errorf("damaged at %d: %d documents", at, n)
		}
	}
	damaged := bytes.Clone(longer)
	damaged[len(whole)-3] ^= 0x55
	if _, err := open(damaged); !errors.Is(err, errDamaged) {
		t.Errorf("damaged in the middle: %v", err)
	}
}
