package mongotest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"keyfold/internal/testserver/must"
)

var secondaryPreferred = readpref.SecondaryPreferred()

// views are one collection as writers and readers with other concerns have it.
type views struct {
	server                  *Server
	local, majority, single *mongo.Collection
}

func viewsOf(t *testing.T, change ...func(*options.ClientOptions)) views {
	s, c := fresh(t, change...)
	with := func(o *options.CollectionOptionsBuilder) *mongo.Collection {
		return c.Database().Collection(c.Name(), o)
	}
	return views{
		server: s, local: c,
		majority: with(options.Collection().SetReadConcern(readconcern.Majority())),
		single:   with(options.Collection().SetWriteConcern(writeconcern.W1())),
	}
}

func TestStalledReplication(t *testing.T) {
	v := viewsOf(t)
	ctx := t.Context()
	insert(t, v.local, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 1}}, bson.D{{Key: "user_id", Value: 2}, {Key: "n", Value: 2}})
	must.OK(t, v.server.StallReplication())

	res, err := v.single.UpdateOne(ctx, one("user_id", 1), increment)
	if err != nil || res.ModifiedCount != 1 {
		t.Fatalf("w:1 while replication is stalled: %+v, %v", res, err)
	}
	insert(t, v.single, bson.D{{Key: "user_id", Value: 3}, {Key: "n", Value: 3}})
	_, err = v.single.DeleteOne(ctx, one("user_id", 2))
	must.OK(t, err)
	for _, tc := range []struct{ user, local, majority int64 }{{1, 2, 1}, {2, -1, 2}, {3, 3, -1}} {
		at := one("user_id", tc.user)
		if got := stored(t, v.local, at); got != tc.local {
			t.Errorf("user %d read locally: %d", tc.user, got)
		}
		if got := stored(t, v.majority, at); got != tc.majority {
			t.Errorf("user %d read with majority: %d", tc.user, got)
		}
	}
	if n := counted(t, v.majority, one("n", one("$in", bson.A{1, 2, 3}))); n != 2 {
		t.Errorf("majority has %d", n)
	}

	raw, _ := v.local.Database().RunCommand(ctx, bson.D{ // leaves the concern's error to the reader
		{Key: "update", Value: "users"},
		{Key: "maxTimeMS", Value: 30},
		{Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: one("user_id", 1)}, {Key: "u", Value: increment}}}},
	}).Raw()
	if raw.Lookup("writeConcernError", "code").Int32() != codeMaxTimeExpired {
		t.Errorf("maxTimeMS: %s", raw)
	}
	if got := stored(t, v.local, one("user_id", 1)); got != 3 {
		t.Errorf("a write whose concern timed out: n = %d", got)
	}

	// A compare-and-swap that missed saw a version that may be rolled back, so
	// its answer waits as well.
	raw, _ = v.local.Database().RunCommand(ctx, bson.D{
		{Key: "update", Value: "users"},
		{Key: "maxTimeMS", Value: 30},
		{Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: one("user_id", 77)}, {Key: "u", Value: increment}}}},
	}).Raw()
	if raw.Lookup("n").AsInt64() != 0 || raw.Lookup("writeConcernError", "code").Int32() != codeMaxTimeExpired {
		t.Errorf("a write that matched nothing: %s", raw)
	}

	answered := make(chan error, 1)
	go func() {
		_, err := v.local.UpdateOne(ctx, one("user_id", 1), increment)
		answered <- err
	}()
	must.Hold(t, "the write to be visible", func() bool { return stored(t, v.local, one("user_id", 1)) == 4 })
	select {
	case err := <-answered:
		t.Fatalf("w:majority was answered without one: %v", err)
	default:
	}
	must.OK(t, v.server.Replicate())
	must.OK(t, <-answered)
	if got := stored(t, v.majority, one("user_id", 1)); got != 4 {
		t.Errorf("majority after replication: %d", got)
	}
	if c := v.server.store.collection("shop.users"); len(c.dirty) != 0 || !slices.Contains(c.rows, nil) {
		t.Errorf("%d records keep a past, of %d with the deleted one", len(c.dirty), len(c.rows))
	}
}

func TestDelayedReplication(t *testing.T) {
	v := viewsOf(t)
	must.OK(t, v.server.DelayReplication(time.Hour))
	for user := range 3 {
		insert(t, v.single, bson.D{{Key: "user_id", Value: user}, {Key: "n", Value: 1}})
	}
	if n := stored(t, v.majority, one("user_id", 0)); n != -1 {
		t.Errorf("majority before the hour is over: %d", n)
	}
	must.OK(t, v.server.DelayReplication(40*time.Millisecond)) // what has waited is there at once
	if n := stored(t, v.majority, one("user_id", 0)); n != 1 {
		t.Errorf("majority after the other delay: %d", n)
	}
	if _, err := v.local.UpdateOne(t.Context(), one("user_id", 0), increment); err != nil {
		t.Error(err)
	}
	if n := stored(t, v.majority, one("user_id", 0)); n != 2 {
		t.Errorf("majority after the answer: %d", n)
	}
}

func TestRollback(t *testing.T) {
	v := viewsOf(t)
	ctx := t.Context()
	for user := range 4 {
		insert(t, v.local, bson.D{{Key: "user_id", Value: user}, {Key: "n", Value: 1}})
	}
	must.OK(t, v.server.StallReplication())
	for range 3 {
		_, err := v.single.UpdateOne(ctx, one("user_id", 0), increment)
		must.OK(t, err)
	}
	_, err := v.single.DeleteOne(ctx, one("user_id", 1))
	must.OK(t, err)
	insert(t, v.single, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 50}}, bson.D{{Key: "user_id", Value: 9}, {Key: "n", Value: 9}})
	_, err = v.single.UpdateOne(ctx, one("user_id", 2), bson.D{{Key: "$set", Value: one("user_id", 20)}})
	must.OK(t, err)
	n, err := v.server.Rollback()
	must.OK(t, err)
	if n != 5 {
		t.Errorf("%d documents were rolled back, want 5", n)
	}
	for user, want := range map[int]int64{0: 1, 1: 1, 2: 1, 3: 1, 9: -1, 20: -1} {
		if got := stored(t, v.local, one("user_id", user)); got != want {
			t.Errorf("user %d: n = %d, want %d", user, got, want)
		}
	}
	insert(t, v.local, one("user_id", 9), one("user_id", 20))
	if _, err := v.local.InsertOne(ctx, one("user_id", 1)); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("the index forgot a user: %v", err)
	}
}

// A write that waits for its majority when it is rolled back is not answered as
// done; sent again by the driver it is executed anew.
func TestRollbackUnderAWrite(t *testing.T) {
	v := viewsOf(t)
	insert(t, v.local, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 0}})
	must.OK(t, v.server.StallReplication())
	answered := make(chan error, 1)
	go func() {
		_, err := v.local.UpdateOne(t.Context(), one("user_id", 1), increment)
		answered <- err
	}()
	must.Hold(t, "the write", func() bool { return stored(t, v.local, one("user_id", 1)) == 1 })
	_, err := v.server.Rollback()
	must.OK(t, err)
	must.OK(t, <-answered)
	if n := stored(t, v.majority, one("user_id", 1)); n != 1 {
		t.Errorf("after the retry n = %d", n)
	}

	v = viewsOf(t, noRetries)
	insert(t, v.local, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 0}})
	must.OK(t, v.server.StallReplication())
	go func() {
		_, err := v.local.UpdateOne(t.Context(), one("user_id", 1), increment)
		answered <- err
	}()
	must.Hold(t, "the write", func() bool { return stored(t, v.local, one("user_id", 1)) == 1 })
	_, err = v.server.Rollback()
	must.OK(t, err)
	if err := <-answered; err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a write that was rolled back: %v", err)
	}
	again := connect(t, v.server.URI()).Database("shop").Collection("users") // v's connections are closed
	if n := stored(t, again, one("user_id", 1)); n != 0 {
		t.Errorf("n = %d", n)
	}
}

// maxTimeMS ends the wait for a majority; the write stays.
func TestDeadlineOfAMajority(t *testing.T) {
	v := viewsOf(t, noRetries)
	must.OK(t, v.server.StallReplication())
	raw, _ := v.local.Database().RunCommand(t.Context(), bson.D{
		{Key: "insert", Value: "users"},
		{Key: "documents", Value: bson.A{bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 1}}}},
		{Key: "writeConcern", Value: one("w", "majority")},
		{Key: "maxTimeMS", Value: 20},
	}).Raw()
	if raw.Lookup("writeConcernError", "code").Int32() != codeMaxTimeExpired || stored(t, v.local, one("user_id", 1)) != 1 {
		t.Errorf("answer: %s", raw)
	}
}

// The wait for a write that was rolled back ends as such, and not with the
// commit of a later one.
func TestWaitForALostWrite(t *testing.T) {
	st := newStore()
	st.replication.setMode(true, 0)
	c := st.ensure("db.c")
	write := func() uint64 {
		w := &writer{store: st}
		must.OK(t, c.write(w, &record{}, withID(emptyDocument), nil))
		return w.last
	}
	seq := write()
	_, err := st.rollBack(func() {})
	must.OK(t, err)
	must.OK(t, st.replication.wait(t.Context(), write()))
	if f, ok := errors.AsType[*failure](st.replication.wait(t.Context(), seq)); !ok || f.code != codeInterrupted {
		t.Errorf("the lost write: %v", f)
	}
}
