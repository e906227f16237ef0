package mongotest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"keyfold/internal/testserver/must"
)

func TestCRUD(t *testing.T) {
	_, c := fresh(t)
	ctx := t.Context()
	for i := range 5 {
		_, err := c.InsertOne(ctx, bson.D{{Key: "user_id", Value: i}, {Key: "n", Value: int64(10 * i)}, {Key: "a", Value: i}})
		must.OK(t, err)
	}
	res, err := c.UpdateOne(ctx, one("user_id", 2), bson.D{
		{Key: "$set", Value: bson.D{{Key: "a", Value: "x"}, {Key: "new", Value: true}}},
		{Key: "$inc", Value: one("n", 1)},
		{Key: "$unset", Value: one("nothing", 1)},
	})
	must.OK(t, err)
	if res.MatchedCount != 1 || res.ModifiedCount != 1 {
		t.Errorf("update: %+v", res)
	}
	var got struct {
		N   int64
		A   string
		New bool
	}
	must.OK(t, c.FindOne(ctx, one("a", "x")).Decode(&got))
	if got.N != 21 || !got.New {
		t.Errorf("updated document: %+v", got)
	}
	res, err = c.UpdateOne(ctx, one("user_id", 2), bson.D{{Key: "$set", Value: one("new", true)}})
	must.OK(t, err)
	if res.MatchedCount != 1 || res.ModifiedCount != 0 {
		t.Errorf("an update that changes nothing: %+v", res)
	}
	replaced, err := c.ReplaceOne(ctx, one("user_id", 0), bson.D{{Key: "user_id", Value: 0}, {Key: "n", Value: 7}})
	must.OK(t, err)
	if replaced.ModifiedCount != 1 || stored(t, c, one("user_id", 0)) != 7 {
		t.Errorf("replace: %+v", replaced)
	}
	deleted, err := c.DeleteMany(ctx, one("user_id", one("$in", bson.A{3, 4, 99})))
	must.OK(t, err)
	if n := counted(t, c, bson.D{}); deleted.DeletedCount != 2 || n != 3 {
		t.Errorf("deleted %d, %d left", deleted.DeletedCount, n)
	}
}

func TestUpsert(t *testing.T) {
	_, c := fresh(t)
	ctx := t.Context()
	up := options.UpdateOne().SetUpsert(true)
	change := bson.D{{Key: "$set", Value: one("n", 1)}, {Key: "$setOnInsert", Value: one("created", true)}}
	for i := range 2 {
		res, err := c.UpdateOne(ctx, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: one("$exists", i == 1)}}, change, up)
		must.OK(t, err)
		if (res.UpsertedCount == 1) != (i == 0) || (res.UpsertedID != nil) != (i == 0) {
			t.Errorf("upsert %d: %+v", i, res)
		}
	}
	raw, err := c.FindOne(ctx, one("user_id", 1)).Raw()
	must.OK(t, err)
	elements, err := raw.Elements()
	must.OK(t, err)
	if elements[0].Key() != "_id" || !raw.Lookup("created").Boolean() {
		t.Errorf("upserted %s", raw)
	}
	// A miss of the compare-and-swap upserts into the unique index.
	_, err = c.UpdateOne(ctx, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 9}}, bson.D{{Key: "$inc", Value: one("m", 1)}}, up)
	if !mongo.IsDuplicateKeyError(err) {
		t.Errorf("upsert onto another document: %v", err)
	}
}

func TestFindOptions(t *testing.T) {
	s, c := fresh(t)
	ctx := t.Context()
	docs := make([]any, 1000)
	for i := range docs {
		docs[i] = bson.D{{Key: "user_id", Value: i}, {Key: "group", Value: i % 3}, {Key: "x", Value: i}, {Key: "y", Value: 0}}
	}
	insert(t, c, docs...)
	cursor, err := c.Find(ctx, one("group", 1), options.Find().
		SetSort(one("user_id", -1)).SetLimit(4).SetBatchSize(3).
		SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "user_id", Value: 1}, {Key: "x", Value: 1}}))
	must.OK(t, err)
	var got []bson.D
	must.OK(t, cursor.All(ctx, &got))
	var want []bson.D
	for _, id := range []int32{997, 994, 991, 988} {
		want = append(want, bson.D{{Key: "user_id", Value: id}, {Key: "x", Value: id}})
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	for _, size := range []int32{1, 7, 101, 2000} {
		cursor, err := c.Find(ctx, bson.D{}, options.Find().SetBatchSize(size))
		must.OK(t, err)
		var all []bson.Raw
		must.OK(t, cursor.All(ctx, &all))
		if len(all) != len(docs) || all[999].Lookup("user_id").Int32() != 999 {
			t.Errorf("batches of %d: %d documents", size, len(all))
		}
	}
	before, err := s.Stats()
	must.OK(t, err)
	cursor, err = c.Find(ctx, one("user_id", one("$in", bson.A{5, 6.0, int64(7), 5000})))
	must.OK(t, err)
	var three []bson.Raw
	must.OK(t, cursor.All(ctx, &three))
	after, err := s.Stats()
	must.OK(t, err)
	if len(three) != 3 || after.Examined-before.Examined != 3 {
		t.Errorf("by index: %d found, %d examined", len(three), after.Examined-before.Examined)
	}
	cursor, err = c.Find(ctx, bson.D{}, options.Find().SetBatchSize(2))
	must.OK(t, err)
	must.OK(t, cursor.Close(ctx)) // kills it
	if stats, _ := s.Stats(); stats.Commands["killCursors"] != 1 || len(s.store.cursors.open) != 0 {
		t.Errorf("the cursor is still open after %v", stats.Commands)
	}
}

// The command's shapes as a server has them, not only as the driver reads them.
func TestDuplicateKeyShape(t *testing.T) {
	_, c := fresh(t)
	insert(t, c, one("user_id", 1))
	_, err := c.InsertOne(t.Context(), one("user_id", 1.0))
	w, ok := errors.AsType[mongo.WriteException](err)
	if !ok || len(w.WriteErrors) != 1 {
		t.Fatalf("%v", err)
	}
	raw := w.WriteErrors[0].Raw
	if raw.Lookup("code").Int32() != 11000 || raw.Lookup("keyPattern", "user_id").Int32() != 1 ||
		raw.Lookup("keyValue", "user_id").Double() != 1 || raw.Lookup("index").Int32() != 0 {
		t.Errorf("shape: %s", raw)
	}
	want := "E11000 duplicate key error collection: shop.users index: user_id_1 dup key: { user_id: "
	if !strings.HasPrefix(w.WriteErrors[0].Message, want) {
		t.Errorf("message: %s", w.WriteErrors[0].Message)
	}
}

func TestDefinitions(t *testing.T) {
	_, c := fresh(t)
	ctx := t.Context()
	db := c.Database()
	if err := db.CreateCollection(ctx, "users"); !isCode(err, codeNamespaceExists) {
		t.Errorf("create an existing collection: %v", err)
	}
	names, err := db.ListCollectionNames(ctx, bson.D{})
	must.OK(t, err)
	if !reflect.DeepEqual(names, []string{"users"}) {
		t.Errorf("collections: %v", names)
	}
	index := func(name string, unique bool, field string) error {
		_, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: one(field, 1), Options: options.Index().SetName(name).SetUnique(unique)})
		return err
	}
	if err := index("user_id_1", true, "user_id"); err != nil {
		t.Errorf("create an existing index: %v", err)
	}
	if err := index("other", true, "user_id"); !isCode(err, codeIndexOptionsConflict) {
		t.Errorf("another name: %v", err)
	}
	if err := index("user_id_1", false, "user_id"); !isCode(err, codeIndexKeyConflict) {
		t.Errorf("another option: %v", err)
	}
	insert(t, c, bson.D{{Key: "user_id", Value: 1}, {Key: "k", Value: 1}}, bson.D{{Key: "user_id", Value: 2}, {Key: "k", Value: 1}})
	if err := index("k_1", true, "k"); !isCode(err, codeDuplicateKey) {
		t.Errorf("unique over duplicates: %v", err)
	}
	must.OK(t, index("k_1", false, "k"))
	specs, err := c.Indexes().ListSpecifications(ctx)
	must.OK(t, err)
	if len(specs) != 3 || specs[1].Name != "user_id_1" || specs[1].Unique == nil || !*specs[1].Unique || specs[2].Name != "k_1" {
		t.Errorf("indexes: %+v", specs)
	}
	compound := mongo.IndexModel{Keys: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}}
	for range 2 {
		_, err = c.Indexes().CreateOne(ctx, compound)
		must.OK(t, err)
	}
	if specs, err = c.Indexes().ListSpecifications(ctx); err != nil || len(specs) != 4 || specs[3].KeysDocument.Lookup("b").Int32() != 1 {
		t.Errorf("indexes: %+v, %v", specs, err)
	}
	compound.Options = options.Index().SetUnique(true)
	if _, err = c.Indexes().CreateOne(ctx, compound); !isCode(err, codeCannotCreateIndex) {
		t.Errorf("unique compound index: %v", err)
	}
	must.OK(t, c.Drop(ctx))
	must.OK(t, c.Drop(ctx))
	must.OK(t, db.Drop(ctx))
	if n := counted(t, c, bson.D{}); n != 0 {
		t.Errorf("%d documents after the drop", n)
	}
	if err := db.RunCommand(ctx, one("nonsense", 1)).Err(); !isCode(err, codeCommandNotFound) {
		t.Errorf("unknown command: %v", err)
	}
}

func isCode(err error, code int) bool {
	s, ok := errors.AsType[mongo.ServerError](err)
	return ok && s.HasErrorCode(code)
}

func TestUnacknowledgedWrite(t *testing.T) {
	_, c := fresh(t)
	quiet := c.Database().Collection("users", options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	for i := range 20 {
		_, err := quiet.InsertOne(t.Context(), one("user_id", i))
		must.OK(t, err)
	}
	must.Hold(t, "20 documents", func() bool { return counted(t, c, bson.D{}) == 20 })
}

func TestTransactionsAreRefused(t *testing.T) {
	_, c := fresh(t)
	session, err := c.Database().Client().StartSession()
	must.OK(t, err)
	defer session.EndSession(t.Context())
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		return c.InsertOne(ctx, one("user_id", 1))
	})
	if !isCode(err, codeTransactionRefused) {
		t.Errorf("transaction: %v", err)
	}
}

func TestLargeDocuments(t *testing.T) {
	_, c := fresh(t)
	ctx := t.Context()
	half := make([]byte, 9<<20)
	insert(t, c, bson.D{{Key: "user_id", Value: 1}, {Key: "a", Value: half}})
	_, err := c.UpdateOne(ctx, one("user_id", 1), bson.D{{Key: "$set", Value: one("b", half)}})
	if !isCode(err, codeUpdateTooLarge) {
		t.Errorf("update beyond 16 MiB: %v", err)
	}
	insert(t, c, bson.D{{Key: "user_id", Value: 2}, {Key: "a", Value: half}})
	cursor, err := c.Find(ctx, bson.D{}) // more than one batch
	must.OK(t, err)
	var both []bson.Raw
	must.OK(t, cursor.All(ctx, &both))
	if len(both) != 2 {
		t.Errorf("%d documents", len(both))
	}
}

// Compare-and-swap on one document: every success is one step of the version.
func TestConcurrentCompareAndSwap(t *testing.T) {
	_, c := fresh(t)
	const writers, each = 16, 25
	insert(t, c, bson.D{{Key: "user_id", Value: 1}, {Key: "version", Value: 1}, {Key: "n", Value: 0}})
	var lost atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for done := 0; done < each; {
				var doc struct{ Version, N int }
				if err := c.FindOne(t.Context(), one("user_id", 1)).Decode(&doc); err != nil {
					t.Error(err)
					return
				}
				res, err := c.UpdateOne(t.Context(),
					bson.D{{Key: "user_id", Value: 1}, {Key: "version", Value: doc.Version}},
					bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: doc.Version + 1}, {Key: "n", Value: doc.N + 1}}}})
				if err != nil {
					t.Error(err)
					return
				}
				if res.MatchedCount == 1 {
					done++
				} else {
					lost.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := stored(t, c, one("user_id", 1)); n != writers*each {
		t.Errorf("n is %d after %d successes (and %d conflicts)", n, writers*each, lost.Load())
	}
}

// The first of several writers of one new user wins, and only it.
func TestConcurrentInserts(t *testing.T) {
	_, c := fresh(t)
	var won atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for user := range 20 {
				_, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "user_id", Value: user}})
				switch {
				case err == nil:
					won.Add(1)
				case !mongo.IsDuplicateKeyError(err):
					t.Error(fmt.Errorf("user %d: %w", user, err))
				}
			}
		})
	}
	wg.Wait()
	if won.Load() != 20 {
		t.Errorf("%d inserts of 20 users succeeded", won.Load())
	}
}
