package mongotest

import (
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func wantCode(t *testing.T, err error, code int) {
	t.Helper()
	if code == 0 && err != nil || code != 0 && !slices.Contains(mongo.ErrorCodes(err), code) {
		t.Errorf("%v, want code %d", err, code)
	}
}

func shardBy(t *testing.T, c *mongo.Collection, key bson.D, more ...bson.E) error {
	return c.Database().Client().Database("admin").RunCommand(t.Context(),
		append(bson.D{{Key: "shardCollection", Value: c.Database().Name() + "." + c.Name()}, {Key: "key", Value: key}}, more...)).Err()
}

func TestShardKeys(t *testing.T) {
	hashed, ranged := bson.D{{Key: "user_id", Value: "hashed"}}, bson.D{{Key: "user_id", Value: 1}}
	for _, c := range []struct {
		name   string
		index  string // a unique one that is there before
		key    bson.D
		unique bool
		filled bool
		code   int
	}{
		{"hashed", "", hashed, false, false, 0},
		{"hashed beside a unique index on its field", "user_id", hashed, false, false, 0},
		{"hashed and unique", "", hashed, true, false, codeInvalidOptions},
		{"ranged and unique", "user_id", ranged, true, false, 0},
		{"a unique index on another field", "name", hashed, false, false, codeInvalidOptions},
		{"documents and no index of the key", "user_id", hashed, false, true, codeInvalidOptions},
		{"documents and the index of the key", "user_id", ranged, false, true, 0},
	} {
		s := Start(t, WithMongos())
		users := connect(t, s.URI()).Database("d").Collection("users")
		if c.index != "" {
			_, err := users.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: c.index, Value: 1}}, Options: options.Index().SetUnique(true)})
			wantCode(t, err, 0)
		}
		if c.filled {
			_, err := users.InsertOne(t.Context(), bson.D{{Key: "user_id", Value: 1}})
			wantCode(t, err, 0)
		}
		t.Log(c.name)
		wantCode(t, shardBy(t, users, c.key, bson.E{Key: "unique", Value: c.unique}), c.code)
		n := 0
		if c.code == 0 {
			n = 1
			wantCode(t, shardBy(t, users, c.key), 0) // again
			wantCode(t, shardBy(t, users, bson.D{{Key: "_id", Value: 1}}), codeAlreadyInitialized)
		}
		if keys, err := users.Database().Client().Database("config").Collection("collections").Find(t.Context(), bson.D{{Key: "_id", Value: "d.users"}}); err != nil || keys.RemainingBatchLength() != n {
			t.Errorf("%v, %v, want %d entries of config.collections", keys, err, n)
		}
	}
	wantCode(t, shardBy(t, connect(t, Start(t).URI()).Database("d").Collection("users"), hashed), codeCommandNotFound)
}

// What a mongos could not route is refused, and what it would send to every shard is counted.
func TestRoutingByTheShardKey(t *testing.T) {
	s := Start(t, WithMongos())
	users := connect(t, s.URI()).Database("d").Collection("users")
	wantCode(t, shardBy(t, users, bson.D{{Key: "user_id", Value: "hashed"}}), 0)
	e := func(key string, value any) bson.D { return bson.D{{Key: key, Value: value}} }
	set := e("$set", e("n", 1))
	_, err := users.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "user_id", Value: 1}})
	wantCode(t, err, 0)
	for _, c := range []struct {
		filter bson.D
		upsert bool
		code   int
	}{
		{e("user_id", 1), false, 0},
		{e("user_id", 2), true, 0},
		{e("_id", 1), false, 0},
		{e("n", 1), false, codeInvalidOptions},
		{e("user_id", e("$gt", 0)), false, codeInvalidOptions},
		{e("_id", 1), true, codeShardKeyNotFound},
	} {
		_, err := users.UpdateOne(t.Context(), c.filter, set, options.UpdateOne().SetUpsert(c.upsert))
		wantCode(t, err, c.code)
	}
	_, err = users.DeleteOne(t.Context(), e("n", 1))
	wantCode(t, err, codeInvalidOptions)
	_, err = users.DeleteMany(t.Context(), e("n", 7))
	wantCode(t, err, 0)
	for _, filter := range []bson.D{e("user_id", e("$in", bson.A{1, 2})), e("user_id", e("$gt", 0)), {}} {
		_, err = users.Find(t.Context(), filter)
		wantCode(t, err, 0)
	}
	stats, err := s.Stats()
	wantCode(t, err, 0)
	want := map[string]int64{
		"update users by (_id)": 2, "update users by (n)": 1, "update users by (user_id)": 1,
		"delete users by (n)": 2, "find users by (user_id)": 1, "find users by ()": 1,
	}
	if !maps.Equal(stats.Broadcasts, want) {
		t.Errorf("%v, want %v", stats.Broadcasts, want)
	}
}
